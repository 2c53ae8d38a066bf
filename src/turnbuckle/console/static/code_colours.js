// Colours for code that is whole. The library comes when there is first something to colour, and its tree becomes nodes:
// no markup is made of text. What it does not know, or what is long, stays as it is.

const LONGEST = 40_000; // characters; the library needs about a millisecond for a thousand
const queue = [];
let busy = false;

/** Colour a piece of code when the browser has time for it. @param {HTMLElement} code @param {string} language */
export function colour(code, language) {
  const text = code.textContent;
  if (!language || !text.trim() || text.length > LONGEST) return;
  queue.push({ code, language, text });
  if (!busy) void work();
}

async function work() {
  busy = true;
  try {
    const { default: library } = await import("./highlight.min.js");
    for (let next = queue.shift(); next; next = queue.shift()) {
      await idle();
      paint(library, next);
    }
  } catch (problem) {
    queue.length = 0; // it could not be loaded: code is read without colours, too
    console.info(`Code has no colours: ${problem.message}`);
  } finally {
    busy = false;
  }
}

function paint(library, { code, language, text }) {
  if (!library.getLanguage(language) || code.textContent !== text) return;
  const result = library.highlight(text, { language, ignoreIllegals: true });
  const made = document.createDocumentFragment();
  into(made, result._emitter.rootNode.children);
  if (made.textContent === text) code.replaceChildren(made); // never another text than the one that arrived
}

function into(parent, children) {
  for (const child of children) {
    if (typeof child === "string") {
      parent.append(child);
      continue;
    }
    const scope = child.scope ?? "";
    const node = document.createElement("span");
    if (scope && !scope.startsWith("language:")) node.className = `c-${scope.split(".")[0]}`;
    into(node, child.children);
    parent.append(node);
  }
}

function idle() {
  return new Promise((done) => (window.requestIdleCallback ? requestIdleCallback(done, { timeout: 500 }) : setTimeout(done, 0)));
}
