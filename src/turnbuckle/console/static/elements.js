/** Making elements: plain text only, so nothing that anybody wrote can become markup. */

const SVG = "http://www.w3.org/2000/svg";

const ICONS = {
  menu: "M3 5h14M3 10h14M3 15h14",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  plus: "M10 4v12M4 10h12",
  close: "M5 5l10 10M15 5L5 15",
  down: "M10 4v11M5 10.5l5 5 5-5",
  send: "M10 16V4M5 9l5-5 5 5",
  clip: "M14.5 8.5l-5 5a2.5 2.5 0 0 1-3.5-3.5l6-6a3.5 3.5 0 0 1 5 5l-6.5 6.5",
  stop: "M6 6h8v8H6z",
  search: "M9 4a5 5 0 1 0 0 10a5 5 0 0 0 0-10M13 13l4 4",
};

/**
 * @param {string} tag a tag, with classes behind dots: `p.small.muted`
 * @param {Record<string, any>|null} [set] attributes; `on…` is a listener, true an empty one, false and null are none
 * @param {...(Node|string|null|undefined|false)} children
 */
export function el(tag, set, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(set ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** A picture of one stroke that says nothing by itself. */
export function icon(name) {
  const made = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  const set = { viewBox: "0 0 20 20", width: "18", height: "18", fill: "none", stroke: "currentColor" };
  for (const [key, value] of Object.entries(set)) made.setAttribute(key, value);
  made.setAttribute("stroke-width", name === "more" ? "2.6" : "1.7");
  made.setAttribute("stroke-linecap", "round");
  made.setAttribute("stroke-linejoin", "round");
  made.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  if (name === "stop") path.setAttribute("fill", "currentColor");
  made.append(path);
  return made;
}

/** A name for things that must name each other inside of one page. */
let count = 0;
export function newId(prefix) {
  count += 1;
  return `${prefix}-${count}`;
}

/** Change a text only if it is another one: nothing is read aloud or drawn again for nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
