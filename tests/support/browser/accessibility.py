"""What a page does wrong to those who cannot see well, or not at all: axe's rules, in light and in dark.

Axe takes the background of words from the boxes of the page and does not know what is drawn below them in a picture. So
words in pictures are judged here, by the shapes that lie below their middle, or by their halo where they have one.
"""

from typing import TYPE_CHECKING

import pytest
from support.clients.client_harness import NODE_PACKAGES

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = NODE_PACKAGES / "axe-core" / "axe.min.js"
SCHEMES = ("light", "dark")
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_OF_COLOURS = ["color-contrast", "link-in-text-block"]
_OFF = ", ".join(f"'{rule}': {{enabled: false}}" for rule in _OF_COLOURS)
_RULES = f"axe.run(document, {{runOnly: {_TAGS}, rules: {{{_OFF}}}, resultTypes: ['violations']}})"
_COLOURS = f"axe.run({{exclude: [['svg']]}}, {{runOnly: {{type: 'rule', values: {_OF_COLOURS}}}, resultTypes: ['violations']}})"
_DRAWN = """() => {
  const parsed = (colour) => {
    const numbers = colour.match(/[\\d.]+/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return { parts: numbers.slice(0, 3).map((one) => one * scale), alpha: numbers.length > 3 ? numbers[3] : 1 };
  };
  const over = (below, colour, opacity = 1) => {
    const { parts, alpha } = parsed(colour);
    return below.map((one, at) => one + (parts[at] - one) * alpha * opacity);
  };
  const light = (parts) => {
    const [r, g, b] = parts.map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    const boxes = [];
    for (let at = element; at; at = at.parentElement) boxes.unshift(getComputedStyle(at).backgroundColor);
    return boxes.reduce((below, colour) => over(below, colour), [255, 255, 255]);
  };
  const found = [];
  for (const text of document.querySelectorAll("main svg text")) {
    const box = text.getBoundingClientRect();
    if (!box.width || !text.textContent) continue;
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    let ground = behind(text.ownerSVGElement);
    for (const rect of text.ownerSVGElement.querySelectorAll("g rect, g circle")) {
      const { left, right, top, bottom } = rect.getBoundingClientRect();
      const style = getComputedStyle(rect);
      if (x < left || x > right || y < top || y > bottom || !style.fill.match(/^(rgb|color)/)) continue;
      ground = over(ground, style.fill, Number(style.opacity) * Number(style.fillOpacity));
    }
    const style = getComputedStyle(text);
    if (style.stroke !== "none" && parseFloat(style.strokeWidth) > 0) ground = over(ground, style.stroke);
    const ratio = contrast(over(ground, style.fill), ground);
    if (ratio < 4.5) found.push(`${text.textContent}: ${ratio.toFixed(2)} for ${style.fill} on ${ground.map(Math.round)}`);
  }
  return found;
}"""


def accessibility_problems(page: "Page") -> list[str]:
    """Every complaint, in words."""
    if not AXE.exists():
        pytest.fail("axe-core is not there: scripts/set-up-clients fetches it, and needs a network", False)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    complaints = _complaints(page, _RULES, "any")  # a scheme changes colours, and nothing else
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        complaints += _complaints(page, _COLOURS, scheme)
        complaints += [f"{scheme} contrast in a picture: {words}" for words in page.evaluate(_DRAWN)]
    page.emulate_media(color_scheme="light")
    return complaints


def _complaints(page: "Page", rules: str, scheme: str) -> list[str]:
    return [
        f"{scheme} {violation['id']}: {node['html'][:200]}: {' '.join(node['failureSummary'].split())}"
        for violation in page.evaluate(rules)["violations"]
        for node in violation["nodes"]
    ]
