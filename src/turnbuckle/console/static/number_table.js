/** A table of numbers. On a phone each row is a block with the name of its column before each value (see pages.css), so that
 * nothing is cut off. The roles are written out, since a table that is not laid out as one would lose them. */

import { el } from "./elements.js";
import { whole } from "./words.js";

export class NumberTable {
  /** @param {string[]} names of the columns @param {number[]} right columns that stand at the right: numbers */
  constructor(names, right) {
    this._names = names;
    this._right = right;
    this._rows = el("tbody", { role: "rowgroup" });
    const head = names.map((name, at) => el("th", { scope: "col", role: "columnheader", class: this._side(at) }, name));
    const heads = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head));
    this.element = el("div.table", { tabindex: "0", role: "group", "aria-label": names.join(", ") });
    this.element.append(el("table.numbers", { role: "table" }, heads, this._rows));
  }

  /** @param {(number|string|Node)[][]} rows */
  fill(rows) {
    const row = (cells) => el("tr", { role: "row" }, ...cells.map((cell, at) => this._cell(cell, at)));
    this._rows.replaceChildren(...rows.map(row));
    return this;
  }

  _cell(cell, at) {
    const told = { role: "cell", class: this._side(at), "data-name": this._names[at] };
    return el("td", told, typeof cell === "number" ? whole(cell) : cell);
  }

  _side(at) {
    return this._right.includes(at) ? "right" : null;
  }
}
