// Lines of markdown to blocks: pure, one line at a time, each line looked at once.
//
// `Units.line` takes a whole line. A unit is what is drawn at once: a paragraph, a heading, a rule, a fence of code, a
// quote, a table, or one item of a list. Behind a closed unit nothing can change it, so only the last one is ever drawn
// again. Items and quotes hold lines of their own, which are read in the same way when they are drawn.
//
// It is a subset: no HTML, no reference links, no code by indentation. What is not understood is a paragraph.

export const DEEPEST = 8; // quotes and lists in one another; deeper ones are plain text

const BLANK = /^[ \t]*$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})([.)]))(?:( {1,4})(?! )|( +)|$)/;
const UNDERLINE = /^ {0,3}(?:(=+)|-{2,})[ \t]*$/;
const SIDE = /^:?-+:?$/;
const MOST_COLUMNS = 60;

export class Units {
  constructor() {
    this.closed = []; // whoever draws them takes them out
    this.open = null;
  }

  /** Another whole line, without its end. */
  line(line) {
    const open = this.open;
    if (open && GOES_ON[open.kind].call(this, open, line)) {
      open.size += line.length + 1;
      return;
    }
    if (open && this.open === open) this.close();
    else if (open) return; // the line ended the unit and belongs to it
    if (!BLANK.test(line)) this.begin(line);
  }

  close() {
    if (this.open) this.closed.push(this.open);
    this.open = null;
  }

  begin(line) {
    const unit = begun(line);
    unit.size = line.length;
    this.open = unit;
    if (unit.kind === "heading" || unit.kind === "rule") this.close();
  }

  /** What it would be if this were the next line, and the last. */
  preview(line) {
    const copy = new Units();
    if (this.open) copy.open = { ...this.open, lines: [...this.open.lines] };
    if (line) copy.line(line);
    copy.close();
    return copy.closed;
  }
}

/** All blocks of some lines. */
export function unitsOf(lines) {
  const units = new Units();
  for (const line of lines) units.line(line);
  units.close();
  return units.closed;
}

function begun(line) {
  const fence = FENCE.exec(line);
  if (fence)
    return { kind: "fence", mark: fence[1], language: fence[2].trim().split(/\s/, 1)[0].slice(0, 40), lines: [] };
  const heading = HEADING.exec(line);
  if (heading)
    return { kind: "heading", level: heading[1].length, lines: [headingText(line.slice(heading[0].length))] };
  if (RULE.test(line)) return { kind: "rule", lines: [] };
  const quote = QUOTE.exec(line);
  if (quote) return { kind: "quote", lines: [line.slice(quote[0].length)] };
  const item = ITEM.exec(line);
  if (item) return begunItem(line, item);
  return { kind: "paragraph", lines: [line.trimStart()] };
}

function begunItem(line, [, before, mark, number, sign, gap, wide]) {
  const indent = before.length + mark.length + (gap ? gap.length : 1);
  const start = before.length + mark.length + (gap ? gap.length : wide ? 1 : 0);
  return {
    kind: "item",
    ordered: number !== undefined,
    number: number === undefined ? 1 : Number(number),
    sign: sign || mark,
    indent,
    blanks: 0,
    lines: [line.slice(start)],
  };
}

function headingText(text) {
  let end = text.trimEnd();
  let cut = end.length;
  while (cut > 0 && end[cut - 1] === "#") cut -= 1;
  if (cut === 0 || /[ \t]/.test(end[cut - 1])) end = end.slice(0, cut);
  return end.trim();
}

/** Whether a line begins a block even right behind a paragraph. */
function interrupts(line) {
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  return item !== null && (item[3] === undefined || item[3] === "1") && line.length > item[0].length;
}

const GOES_ON = {
  fence(unit, line) {
    const end = FENCE.exec(line);
    if (end && !end[2].trim() && end[1][0] === unit.mark[0] && end[1].length >= unit.mark.length) {
      this.close();
      return false;
    }
    unit.lines.push(line);
    return true;
  },
  paragraph(unit, line) {
    if (BLANK.test(line)) return false;
    const under = UNDERLINE.exec(line);
    if (under) {
      unit.kind = "heading";
      unit.level = under[1] ? 1 : 2;
      unit.lines = [unit.lines.join(" ")];
      this.close();
      return false;
    }
    if (unit.lines.length === 1 && unit.lines[0].includes("|") && line.includes("-")) {
      const head = cellsOf(unit.lines[0]);
      const sides = cellsOf(line);
      if (head.length === sides.length && sides.every((side) => SIDE.test(side))) {
        unit.kind = "table";
        unit.sides = sides.map((side) => (side.endsWith(":") ? (side.startsWith(":") ? "center" : "right") : ""));
        return true;
      }
    }
    if (interrupts(line)) return false;
    unit.lines.push(line.trimStart());
    return true;
  },
  table(unit, line) {
    if (BLANK.test(line) || interrupts(line) || !line.includes("|")) return false;
    unit.lines.push(line);
    return true;
  },
  quote(unit, line) {
    const mark = QUOTE.exec(line);
    if (!mark && (BLANK.test(line) || interrupts(line) || BLANK.test(unit.lines[unit.lines.length - 1]))) return false;
    unit.lines.push(mark ? line.slice(mark[0].length) : line);
    return true;
  },
  item(unit, line) {
    if (BLANK.test(line)) {
      unit.blanks += 1;
      return true;
    }
    const indent = line.length - line.trimStart().length;
    const inside = indent >= Math.min(unit.indent, 2);
    const lazy = !inside && !unit.blanks && !ITEM.test(line) && !interrupts(line);
    if (!inside && !lazy) return false;
    for (; unit.blanks; unit.blanks -= 1) unit.lines.push("");
    unit.lines.push(line.slice(Math.min(indent, unit.indent)));
    return true;
  },
};

GOES_ON.heading = GOES_ON.rule = () => false;

/** The cells of a table's row. A stroke behind a backslash, or inside of code, is a letter. */
export function cellsOf(line) {
  let row = line.trim();
  if (row.startsWith("|")) row = row.slice(1);
  const cells = [];
  let cell = "";
  let code = false;
  for (let at = 0; at < row.length; at += 1) {
    const sign = row[at];
    if (sign === "\\" && row[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (sign === "|" && !code) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (sign === "`") code = !code;
      cell += sign;
    }
  }
  if (cell.trim()) cells.push(cell.trim());
  return cells.slice(0, MOST_COLUMNS);
}
