/** What stands behind the `#` of the address, and back. Pure: the address alone says what a page shows. */

/** @typedef {{page: "start"|"session"|"run"|"overview"|"runs"|"approvals"|"settings"|"unknown", id?: string}} Place */

const PLAIN = new Set(["overview", "runs", "approvals", "settings"]);
const WITH_ID = { s: "session", r: "run" };
const UP = /^\.{1,2}$/; // in the address of a request these two are steps in the path, and no names
const TASK = /^[a-z]{1,20}$/;

/** @param {string} hash @returns {Place} */
export function placeOf(hash) {
  const parts = hash.replace(/^#?\/?/, "").split("/").filter(Boolean);
  if (!parts.length) return { page: "start" };
  const [first, second] = parts;
  if (parts.length === 1 && PLAIN.has(first)) return { page: first };
  if (parts.length === 2 && Object.hasOwn(WITH_ID, first)) {
    const id = decoded(second);
    if (id && !UP.test(id)) return { page: WITH_ID[first], id };
  }
  return { page: "unknown" };
}

/** @param {Place} place */
export function addressOf(place) {
  const id = encodeURIComponent(place.id ?? "");
  if (place.page === "session") return `#/s/${id}`;
  if (place.page === "run") return `#/r/${id}`;
  return PLAIN.has(place.page) ? `#/${place.page}` : "#/";
}

/**
 * The ready-made task that an address asks for: `/?try=stall`; empty if none. It stands in front of the `#`, so that the
 * server sees it: a link of another site may lead here, but not begin anything.
 */
export function wantedTask(search, hash) {
  const word = placeOf(hash).page === "start" ? new URLSearchParams(search).get("try") : "";
  return TASK.test(word ?? "") ? word : "";
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
