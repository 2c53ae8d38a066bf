/** A button that puts a text on the clipboard and says whether that worked. */

import { el, setText } from "./elements.js";

const SAID_FOR = 2000; // ms

/** @param {string} label what it copies, for those who hear the page @param {() => string} text */
export function copyButton(label, text) {
  const button = el("button.copythis.small", { type: "button", "aria-label": label, title: label }, "Copy");
  button.addEventListener("click", () => void copyBy(button, text()));
  return button;
}

/** Copy a text on behalf of a button, which tells how it went. */
export async function copyBy(button, text) {
  const label = (button.dataset.label ??= button.getAttribute("aria-label"));
  const tell = (words, name) => {
    setText(button, words);
    button.setAttribute("aria-label", name);
  };
  const word = (await copied(text)) ? "Copied" : "Not allowed";
  tell(word, word);
  setTimeout(() => tell("Copy", label), SAID_FOR);
}

/** The buttons of code in answers, wherever they stand. @param {Event} event a click */
export function copyCode({ target }) {
  const button = target instanceof Element ? target.closest(".code button.copy") : null;
  if (button) void copyBy(button, button.closest(".code").querySelector("code").textContent);
}

/** Put a text on the clipboard; whether that worked. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el("textarea", { readonly: true, class: "sr" }); // pages without https have no other way
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
