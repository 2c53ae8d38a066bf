"""The examples of CommonMark in a real page of the console: drawn as the library's own renderer writes them, within the
policy, and nothing of them is alive."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXAMPLES = json.loads((Path(__file__).parents[1] / "console" / "commonmark.json").read_text("utf-8"))[
    "examples"
]

# What the console draws in another way than the library writes is put on a common footing: boxes of code, the levels of
# headings, and what only belongs to the page.
COMPARE = """
async (examples) => {
  const { default: MarkdownIt } = await import("/console/markdown-it.mjs");
  const { markdown } = await import("/console/markdown.js");
  const library = new MarkdownIt({ html: false, linkify: true });
  library.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  library.validateLink = (address) => /^(https?:\\/\\/|mailto:)/i.test(address.trim());
  const outline = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    const inner = [...node.childNodes].map(outline).join("");
    const name = node.localName;
    const link = (address, words) => (address ? `[a ${address}]${words}[/a]` : words);
    if (name === "img") return link(node.getAttribute("src"), node.getAttribute("alt"));
    if (node.classList.contains("code-head")) return "";
    if (["div", "span"].includes(name)) return inner;
    if (name === "a") return link(node.getAttribute("href"), inner);
    if (/^h[1-6]$/.test(name)) return node.closest("li, blockquote") ? `[p][strong]${inner}[/strong][/p]` : `[h]${inner}[/h]`;
    const start = name === "ol" && node.hasAttribute("start") ? ` ${node.getAttribute("start")}` : "";
    return `[${name}${start}]${inner}[/${name}]`;
  };
  const plain = (text) => text.replace(/\\s+/g, " ").replace(/ ?(\\[\\/?[^\\]]*\\]) ?/g, "$1").trim();
  const wrong = [];
  let live = 0;
  for (const [number, , text] of examples) {
    const drawn = markdown(text, document);
    live += drawn.querySelectorAll("script, img, iframe, style, object, svg, form, input, [onclick], [src]").length;
    const page = new DOMParser().parseFromString(library.render(text), "text/html");
    const [one, other] = [drawn, page.body].map((node) => plain([...node.childNodes].map(outline).join("")));
    if (one !== other) wrong.push([number, one, other]);
  }
  return { wrong, live };
}
"""


@pytest.mark.requirement("H3")
def test_every_example_is_drawn_as_the_library_writes_it(visit, serve):
    page = visit(serve().url).open()
    found = page.evaluate(COMPARE, EXAMPLES)
    assert found["live"] == 0
    assert found["wrong"] == []
