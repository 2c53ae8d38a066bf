/**
 * The shell: one page at a time at the place that the address names, the list at the side, the banner and the login.
 *
 * Nothing is remembered here that the server or the address does not say, so a reload or another tab shows the same.
 */

import { addressOf, placeOf, wantedTask } from "./address.js";
import { Api, newName } from "./api.js";
import { ApprovalsPage } from "./approvals_page.js";
import { Attention } from "./attention.js";
import { copyCode } from "./copy_button.js";
import { el, icon, newId, setText } from "./elements.js";
import { showKeys } from "./keys_dialog.js";
import { forgetKey, keptKey, Login, takeGivenKey, whenKeyChanges } from "./login.js";
import { OverviewPage } from "./overview_page.js";
import { Outbox, storeOf } from "./outbox.js";
import { RunList } from "./run_list.js";
import { RunPage } from "./run_page.js";
import { SessionList } from "./session_list.js";
import { SessionPage } from "./session_page.js";
import { SettingsPage } from "./settings_page.js";
import { beginSession, StartPage, TASKS } from "./start_page.js";
import { chooseTheme, theme, THEMES } from "./theme.js";
import { Watch } from "./watch.js";
import { inOrder } from "./words.js";

const NAME = "Turnbuckle";
const NOTHING_KNOWN = { version: "", file: "", rehearsal: false, models: [], relays: [], values: [] };
const SAID_FOR = 8000; // ms that a note stays; problems stay until they are closed
const WIDE = matchMedia("(min-width: 800px)");

export class Shell {
  #page = null;
  #place = "";
  #quiet = 0;

  constructor() {
    takeGivenKey();
    this.api = new Api(keptKey());
    this.watch = new Watch(this.api);
    this.outbox = new Outbox(storeOf("sessionStorage"), newName);
    this.settings = NOTHING_KNOWN;
    this.list = new SessionList(this);
    this.attention = new Attention(({ run }) => this.go({ page: "run", id: run }));
    this.login = new Login(this.api, () => this.#loggedIn());
    this.main = document.getElementById("main");
    this.side = document.getElementById("side");
    this.veil = document.getElementById("veil");
    this.banner = document.getElementById("banner");
    this.toast = el("div.toast", { hidden: true });
  }

  /** Whether there is room for the list beside the page. */
  get isWide() {
    return WIDE.matches;
  }

  async start() {
    this.#buildSide();
    this.#buildTop();
    document.querySelector(".stage").append(this.toast);
    document.getElementById("skip").addEventListener("click", () => this.main.focus());
    window.addEventListener("hashchange", () => this.#show());
    document.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("click", copyCode);
    for (const name of ["dragover", "drop"]) window.addEventListener(name, keepPage);
    this.api.addEventListener("lost", () => this.#connection("lost"));
    this.api.addEventListener("back", () => this.#connection("open"));
    this.api.addEventListener("login", ({ detail }) => this.login.open(detail));
    this.watch.addEventListener("approvals", ({ detail }) => this.#waits(detail));
    whenKeyChanges((key) => this.#keyChanged(key));
    this.list.start();
    await this.#enter();
  }

  // For pages

  /** @param {import("./address.js").Place} place @param {boolean} replace leave no trace of the place before */
  go(place, replace = false) {
    const address = addressOf(place);
    if (replace) history.replaceState(null, "", location.pathname + address);
    else if (location.hash !== address) history.pushState(null, "", address);
    this.#show();
  }

  /** The session is gone; nobody should stay on its page. */
  left(session) {
    const place = placeOf(location.hash);
    if (place.page === "session" && place.id === session) this.go({ page: "start" }, true);
  }

  setTitle(page, title) {
    if (page !== this.#page) return;
    page.title = title;
    setText(this.heading, inOrder(title || NAME));
    this.#tellTitle();
  }

  /** Do something that the server may refuse; its sentence is shown then. */
  async perform(work) {
    try {
      await work();
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      if (problem.status !== 401) this.say(problem.message, "problem");
    }
  }

  /** A sentence at the foot of the page. @param {"problem"|""} kind */
  say(text, kind = "") {
    clearTimeout(this.#quiet);
    const close = el("button.plain.icon", { type: "button", "aria-label": "Close" }, icon("close"));
    const hide = () => {
      this.toast.hidden = true;
    };
    close.addEventListener("click", hide);
    this.toast.replaceChildren(el("p", { role: kind === "problem" ? "alert" : "status" }, text), close);
    this.toast.classList.toggle("problem", kind === "problem");
    this.toast.hidden = false;
    if (kind !== "problem") this.#quiet = setTimeout(hide, SAID_FOR);
  }

  async readSettings() {
    this.settings = await this.api.ask("GET", "/v1/settings");
  }

  logOut() {
    forgetKey();
    this.#keyChanged("");
  }

  // Pages

  async #enter() {
    await this.perform(() => this.readSettings());
    if (this.api.locked) return; // the login comes back here
    if (this.settings === NOTHING_KNOWN) {
      this.api.addEventListener("back", () => void this.#enter(), { once: true });
      return;
    }
    this.#place = "";
    this.#show();
    if (this.#started) this.watch.soon();
    else {
      this.#started = true;
      await this.watch.start();
    }
  }
  #started = false;

  #show() {
    if (this.settings === NOTHING_KNOWN) return;
    const task = wantedTask(location.search, location.hash);
    if (task && this.settings.rehearsal && Object.hasOwn(TASKS, task)) {
      this.#place = "";
      beginSession(this, TASKS[task].text, "", true); // the address is the session's before anything is sent
      return;
    }
    const place = placeOf(location.hash);
    const address = addressOf(place);
    if (this.#page && this.#place === address) return;
    this.#place = address;
    this.#page?.close();
    this.#page = this.#made(place);
    this.main.replaceChildren(this.#page.element);
    this.actions.replaceChildren(...(this.#page.headActions ?? []));
    this.setTitle(this.#page, this.#page.title);
    this.list.setCurrent(place.page === "session" ? place.id : "");
    for (const link of this.links) mark(link, link.getAttribute("href") === address);
    this.#closeDrawer();
    if (!this.toast.classList.contains("problem")) this.toast.hidden = true; // it was about the page before
    void this.#page.open();
  }

  #made(place) {
    switch (place.page) {
      case "session":
        return new SessionPage(this, place.id);
      case "run":
        return new RunPage(this, place.id);
      case "runs":
        return new RunList(this);
      case "overview":
        return new OverviewPage(this);
      case "approvals":
        return new ApprovalsPage(this);
      case "settings":
        return new SettingsPage(this);
      default:
        return new StartPage(this);
    }
  }

  // The frame

  #buildSide() {
    const fresh = el("a.new", { href: "#/" }, icon("plus"), "New session");
    const links = [
      ["#/overview", "Overview"],
      ["#/runs", "Runs"],
      ["#/approvals", "Approvals"],
      ["#/settings", "Settings"],
    ].map(([href, words]) => el("a", { href }, words));
    this.badge = el("span.badge", { hidden: true });
    links[2].append(this.badge);
    this.links = [fresh, ...links];
    const close = el("button.plain.icon.onphone", { type: "button", "aria-label": "Close the list" }, icon("close"));
    close.addEventListener("click", () => this.#closeDrawer(true));
    this.side.append(
      el("div.brand", null, el("a", { href: "#/" }, NAME), el("span.grow"), close),
      fresh,
      this.list.element,
      el("nav.pages", { "aria-label": "Pages" }, ...links),
      el("div.sidefoot", null, themeChoice(), keysButton(), this.attention.choice()),
    );
    this.veil.addEventListener("click", () => this.#closeDrawer(true));
    this.side.addEventListener("click", (event) => event.target.closest("a") && this.#closeDrawer());
    WIDE.addEventListener("change", () => this.#closeDrawer());
    this.#closeDrawer();
  }

  #buildTop() {
    const set = { type: "button", "aria-label": "Sessions and pages", "aria-expanded": "false" };
    this.drawerButton = el("button.plain.icon.onphone", set, icon("menu"));
    this.drawerButton.addEventListener("click", () => this.#openDrawer());
    this.heading = el("h1", null, NAME);
    this.actions = el("div.actions");
    document.getElementById("top").append(this.drawerButton, this.heading, el("span.grow"), this.actions);
  }

  #openDrawer() {
    document.body.classList.add("drawer");
    this.veil.hidden = false;
    this.side.inert = false;
    document.querySelector(".stage").inert = true;
    this.drawerButton.setAttribute("aria-expanded", "true");
    this.side.querySelector("a, button")?.focus();
  }

  #closeDrawer(focus = false) {
    document.body.classList.remove("drawer");
    this.veil.hidden = true;
    this.side.inert = !this.isWide;
    document.querySelector(".stage").inert = false;
    this.drawerButton?.setAttribute("aria-expanded", "false");
    if (focus) this.drawerButton.focus();
  }

  #key(event) {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && document.body.classList.contains("drawer")) this.#closeDrawer(true);
    else if (event.key === "?" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      showKeys();
    } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      if (!this.isWide) this.#openDrawer();
      this.list.focusSearch();
    } else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      const next = this.list.neighbour(event.key === "ArrowDown" ? 1 : -1);
      if (!next) return;
      event.preventDefault();
      this.go({ page: "session", id: next });
    }
  }

  #connection(word) {
    document.body.dataset.connection = word;
    setText(this.banner, word === "lost" ? "Connection lost, trying again." : "");
  }

  #waits(waiting) {
    const count = waiting.length;
    this.attention.show(waiting);
    this.badge.hidden = !count;
    this.badge.replaceChildren(String(count), el("span.sr", null, count === 1 ? " waits" : " wait"));
    this.waiting = count;
    this.#tellTitle();
  }

  #tellTitle() {
    const mark = this.waiting ? `(${this.waiting}) ` : "";
    const title = this.#page?.title ? `${mark}${this.#page.title} · ${NAME}` : `${mark}${NAME}`;
    if (document.title !== title) document.title = title;
  }

  #loggedIn() {
    this.list.clear(); // it may be somebody else
    this.watch.clear();
    void this.#enter();
  }

  #keyChanged(key) {
    if (key === this.api.key) return;
    this.api.key = key;
    this.settings = NOTHING_KNOWN;
    this.list.clear();
    this.watch.clear();
    this.#page?.close();
    this.#page = null;
    this.main.replaceChildren();
    void this.#enter();
  }
}

function themeChoice() {
  const id = newId("theme");
  const names = { system: "System", light: "Light", dark: "Dark" };
  const now = theme();
  const options = THEMES.map((word) => el("option", { value: word, selected: word === now }, names[word]));
  const select = el("select", { id }, ...options);
  select.addEventListener("change", () => chooseTheme(select.value));
  return el("span.picker", null, el("label", { for: id }, "Theme"), select);
}

function keysButton() {
  return el("button.plain.small", { type: "button", title: "Keys (?)", onclick: showKeys }, "Keys");
}

/** A file that is dropped beside the box must not take the place of the page. */
function keepPage(event) {
  if ([...(event.dataTransfer?.types ?? [])].includes("Files")) event.preventDefault();
}

function mark(link, open) {
  if (open) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

void new Shell().start();
