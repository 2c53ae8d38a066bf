/** What stands behind the `#` of the address, and back. Pure: the address alone says what a page shows. */

/** @typedef {{page: "start"|"session"|"run"|"runs"|"approvals"|"settings"|"try"|"unknown", id?: string}} Place */

const PLAIN = new Set(["runs", "approvals", "settings"]);
const WITH_ID = { s: "session", r: "run", try: "try" };
const TASK = /^[a-z]{1,20}$/;

/** @param {string} hash @returns {Place} */
export function placeOf(hash) {
  const parts = hash.replace(/^#?\/?/, "").split("/").filter(Boolean);
  if (!parts.length) return { page: "start" };
  const [first, second] = parts;
  if (parts.length === 1 && PLAIN.has(first)) return { page: first };
  if (parts.length === 2 && Object.hasOwn(WITH_ID, first)) {
    const id = decoded(second);
    if (id) return { page: WITH_ID[first], id };
  }
  return { page: "unknown" };
}

/** @param {Place} place */
export function addressOf(place) {
  const id = encodeURIComponent(place.id ?? "");
  if (place.page === "session") return `#/s/${id}`;
  if (place.page === "run") return `#/r/${id}`;
  if (place.page === "try") return `#/try/${id}`;
  return PLAIN.has(place.page) ? `#/${place.page}` : "#/";
}

/** The ready-made task that an address asks for: `/?try=stall` or `#/try/stall`; empty if none. */
export function wantedTask(search, hash) {
  const place = placeOf(hash);
  const word = place.page === "try" ? place.id : place.page === "start" ? new URLSearchParams(search).get("try") : "";
  return TASK.test(word ?? "") ? word : "";
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
