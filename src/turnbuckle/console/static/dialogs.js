/** Menus behind a button, and questions that must be answered before anything happens. */

import { el, icon, newId } from "./elements.js";

/**
 * A button that opens a list of things to do. `entries` is asked each time, so that it fits what is.
 * With `words` the button shows them, and else three dots.
 * @param {string} label @param {() => {text: string, act: () => void, danger?: boolean}[]} entries @param {string} [words]
 */
export function menuButton(label, entries, words = "") {
  const id = newId("menu");
  const kind = words ? "button.small" : "button.plain.icon";
  const button = el(kind, { type: "button", "aria-haspopup": "menu", "aria-expanded": "false", title: label });
  if (!words) button.setAttribute("aria-label", label);
  button.append(words || icon("more"));
  button.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (button.getAttribute("aria-expanded") === "true") return;
    openMenu(button, id, label, entries());
  });
  return button;
}

function openMenu(button, id, label, entries) {
  const menu = el("div.menu", { id, role: "menu", "aria-label": label });
  for (const { text, act, danger } of entries) {
    const item = el(danger ? "button.danger" : "button", { type: "button", role: "menuitem", tabindex: "-1" }, text);
    item.addEventListener("click", () => {
      close(true);
      act();
    });
    menu.append(item);
  }
  const close = (focus) => {
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    window.removeEventListener("resize", gone);
    document.removeEventListener("scroll", moved, true);
    if (focus && button.isConnected) button.focus();
  };
  const gone = () => close(false);
  const moved = (event) => event.target.contains(button) && close(false);
  const outside = (event) => !menu.contains(event.target) && !button.contains(event.target) && close(false);
  menu.addEventListener("keydown", (event) => menuKey(event, menu, close));
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) close(false);
  });
  document.addEventListener("pointerdown", outside, true);
  document.addEventListener("scroll", moved, true);
  window.addEventListener("resize", gone);
  (button.closest("aside, header, main") ?? document.body).append(menu);
  place(menu, button);
  button.setAttribute("aria-expanded", "true");
  menu.firstElementChild?.focus();
}

function menuKey(event, menu, close) {
  const items = [...menu.children];
  const at = items.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
  if (next !== undefined) {
    event.preventDefault();
    items[next % items.length].focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.preventDefault();
    event.stopPropagation();
    close(true);
  }
}

/** Under the button, or above it where there is no room, and never outside of the window. */
function place(menu, button) {
  const from = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = from.bottom + 4 + height <= window.innerHeight;
  menu.style.left = `${Math.max(8, Math.min(from.right - width, window.innerWidth - width - 8))}px`;
  menu.style.top = `${Math.max(8, below ? from.bottom + 4 : from.top - 4 - height)}px`;
}

/**
 * Ask before something that cannot be undone.
 * @param {{title: string, text: string, yes: string}} question @returns {Promise<boolean>}
 */
export function confirmed({ title, text, yes }) {
  return asked(title, [el("p", null, text)], yes, "danger", () => true).then((answer) => answer === true);
}

/** Ask for a line of text. @returns {Promise<string|null>} null: never mind */
export function prompted({ title, label, value, yes, most }) {
  const id = newId("field");
  const field = el("input", { type: "text", id, maxlength: most, autocomplete: "off" });
  field.value = value;
  const content = [el("label", { for: id }, label), field];
  return asked(title, content, yes, "primary", () => field.value, field);
}

function asked(title, content, yes, kind, answer, first = null) {
  const id = newId("title");
  const cancel = el("button", { type: "button" }, "Cancel");
  const accept = el(`button.${kind}`, { type: "submit" }, yes);
  const form = el("form.asking", null, el("h2", { id }, title), ...content, el("div.answers", null, cancel, accept));
  const dialog = el("dialog", { "aria-labelledby": id }, form);
  return new Promise((resolve) => {
    let given = null;
    cancel.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      given = answer();
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
    (first ?? cancel).focus();
    first?.select();
  });
}
