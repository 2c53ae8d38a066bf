/** What the lists of the console do with what the server says. Pure, so that it can be tried without a browser. */

/**
 * A list that was shown, brought up to date with the newest first page. Lists are in the order of the last touch, so
 * whatever is shown but missing although it would belong on that page is gone. What a search found is in another order:
 * there nobody can tell, and it stays.
 * @template {{id: string, updated_at: number}} T
 * @param {T[]} shown @param {T[]} page @param {boolean} more whether there is another page behind
 * @param {boolean} searched whether the list is what a search found
 * @returns {T[]}
 */
export function merged(shown, page, more, searched = false) {
  const fresh = new Set(page.map((one) => one.id));
  const end = page.length && !searched ? page[page.length - 1].updated_at : Infinity;
  const older = more ? shown.filter((one) => !fresh.has(one.id) && one.updated_at <= end) : [];
  return [...page, ...older];
}

/** The same with a later page at the end. */
export function extended(shown, page) {
  const known = new Set(shown.map((one) => one.id));
  return [...shown, ...page.filter((one) => !known.has(one.id))];
}

/** What is said under a search. @param {number} count of what is shown @param {boolean} more may stand behind it */
export function foundWords(count, more) {
  if (!count) return more ? "Searching …" : "Nothing was found.";
  return `${count}${more ? " or more" : ""} ${count === 1 && !more ? "session" : "sessions"} found.`;
}

/**
 * The runs of a session in the order of their messages. What a fork shares with its parent belongs to a run that is
 * not its own: those messages stand for themselves.
 * @param {{id: string, run: string, role: string, text: string, shared: boolean}[]} messages
 * @returns {{run: string, own: boolean, first: string, messages: object[]}[]}
 */
export function grouped(messages) {
  const blocks = [];
  for (const message of messages) {
    const last = blocks[blocks.length - 1];
    const own = !message.shared;
    if (last && last.run === message.run && last.own === own) last.messages.push(message);
    else blocks.push({ run: message.run, own, first: message.id, messages: [message] });
  }
  return blocks;
}

/**
 * Earlier messages in front of what is known. A page may end in the middle of a run, whose block is then made whole.
 * @param {object[]} earlier messages, the newest first @param {object[]} blocks
 */
export function preceded(earlier, blocks) {
  return grouped([...[...earlier].reverse(), ...blocks.flatMap((block) => block.messages)]);
}

/**
 * Messages that wait for their turn, oldest first.
 * @param {{run: string, state: string}[]} inbox @param {Set<string>} begun runs that are shown or under way
 */
export function waiting(inbox, begun) {
  return inbox.filter((one) => (one.state === "accepted" || one.state === "deferred") && !begun.has(one.run));
}

/**
 * A text in pieces, those that were searched for marked. Case and accents do not matter, as in the server's search.
 * @param {string} text @param {string} words @returns {{text: string, hit: boolean}[]}
 */
export function markedPieces(text, words) {
  const asked = words.split(/\s+/).map(plain).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const signs = Array.from(text);
  const [flat, places] = flattened(signs);
  const hit = new Array(signs.length).fill(false);
  for (const word of asked) {
    for (let at = flat.indexOf(word); at >= 0; at = flat.indexOf(word, at + word.length)) {
      if (at > 0 && /[\p{L}\p{N}]/u.test(flat[at - 1])) continue; // words are found from their beginning
      for (let one = at; one < at + word.length; one += 1) hit[places[one]] = true;
    }
  }
  const pieces = [];
  signs.forEach((sign, at) => {
    const last = pieces[pieces.length - 1];
    if (last && last.hit === hit[at]) last.text += sign;
    else pieces.push({ text: sign, hit: hit[at] });
  });
  return pieces;
}

/** Settings that somebody chose before those that nobody touched; only those that hold every word. */
export function settingsShown(values, words) {
  const asked = words.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => asked.every((word) => `${one.key} ${one.value} ${one.source}`.toLowerCase().includes(word));
  const usual = (one) => Number(one.source === "default");
  return values.filter(fits).sort((a, b) => usual(a) - usual(b)); // sort keeps the order of equals
}

/** How long ago, in a word or two. Both in seconds. */
export function ago(at, now) {
  const gone = Math.max(0, now - at);
  if (gone < 60) return "now";
  if (gone < 3600) return `${Math.floor(gone / 60)} min`;
  if (gone < 86_400) return `${Math.floor(gone / 3600)} h`;
  if (gone < 7 * 86_400) return `${Math.floor(gone / 86_400)} d`;
  return new Date(at * 1000).toISOString().slice(0, 10);
}

function plain(text) {
  return text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "");
}

/** Signs without case and accents, and for each of the flat text's places the sign that it came from. */
function flattened(signs) {
  let flat = "";
  const places = [];
  signs.forEach((sign, at) => {
    const made = plain(sign);
    flat += made;
    for (let one = 0; one < made.length; one += 1) places.push(at);
  });
  return [flat, places];
}
