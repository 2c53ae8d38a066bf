/** Light, dark, or as the system has it. The choice stays in this browser, and all tabs follow it at once. */

const KEPT = "turnbuckle.theme";
export const THEMES = ["system", "light", "dark"];

/** @returns {"system"|"light"|"dark"} */
export function theme() {
  try {
    const kept = localStorage.getItem(KEPT);
    return THEMES.includes(kept) ? kept : "system";
  } catch {
    return "system"; // a browser that keeps nothing
  }
}

/** @param {"system"|"light"|"dark"} word */
export function chooseTheme(word) {
  try {
    localStorage.setItem(KEPT, word);
  } catch {
    // it holds until the page is closed
  }
  show(word);
}

function show(word) {
  if (word === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = word;
}

show(theme());
window.addEventListener("storage", (event) => event.key === KEPT && show(theme()));
