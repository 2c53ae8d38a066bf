"""Texts that repeat themselves, as models write them: the hardest ones to join without losing or doubling anything."""

import json
import random
from collections.abc import Callable

_WORDS = (
    "the a wave boat rope wind shackle turns slack old new takes holds and of in under before harbour".split()
)


def prose(rng: random.Random) -> str:
    """Sentences of few words, some of them said again and again."""
    out: list[str] = []
    while sum(map(len, out)) < 3_000:
        sentence = " ".join(rng.choice(_WORDS) for _ in range(rng.randint(3, 14))).capitalize()
        out += [sentence + rng.choice([". ", ". ", ".\n\n", "! "])] * rng.choice([1, 1, 1, 2, 3])
    return "".join(out)


def code(rng: random.Random) -> str:
    out: list[str] = []
    while sum(map(len, out)) < 3_000:
        name, indent = rng.choice(["x", "total", "row", "item"]), "    " * rng.randint(0, 3)
        out += [
            rng.choice(
                [
                    f"{indent}{name} = {name} + 1\n",
                    f"{indent}if {name}:\n{indent}    return {name}\n",
                    f"{indent}self.assertEqual({name}({rng.randint(0, 9)}), {rng.randint(0, 9)})\n",
                    "\n",
                    f"{indent}}}\n",
                    f"{indent}pass\n",
                ]
            )
        ] * rng.choice([1, 1, 2, 4])
    return "".join(out)


def table(rng: random.Random) -> str:
    rows = ["| name     | passed | failed |\n", "|----------|--------|--------|\n"]
    while sum(map(len, rows)) < 2_500:
        row = f"| {rng.choice(_WORDS):8} | {rng.choice([0, 0, 1, 12]):6} | {rng.choice([0, 0, 0, 3]):6} |\n"
        rows += [row] * rng.choice([1, 1, 2, 5])
    return "".join(rows)


def log(rng: random.Random) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < 3_000:
        at = f"2026-11-17 10:{rng.randint(0, 5):02}:00"
        line = f"{at} {rng.choice(['INFO', 'WARN'])} worker-{rng.randint(1, 3)} {rng.choice(['started', 'stopped', 'retry'])}\n"
        lines += [line] * rng.choice([1, 1, 2, 6])
    return "".join(lines)


def html(rng: random.Random) -> str:
    out = ["<ul>\n"]
    while sum(map(len, out)) < 2_500:
        item = f'  <li class="{rng.choice(["a", "b"])}"><span>{rng.choice(_WORDS)}</span></li>\n'
        out += [item] * rng.choice([1, 2, 3])
        out += ["</ul>\n</div>\n</div>\n<div>\n<div>\n<ul>\n"] * rng.choice([0, 0, 1])
    return "".join([*out, "</ul>\n"])


def csv(rng: random.Random) -> str:
    lines = ["id,name,count,count\n"]
    while sum(map(len, lines)) < 2_500:
        lines += [f"{rng.randint(1, 3)},{rng.choice(_WORDS)},0,0\n"] * rng.choice([1, 1, 3])
    return "".join(lines)


def json_list(rng: random.Random) -> str:
    items: list[object] = []
    while len(items) < 60:
        items += [{"name": rng.choice(_WORDS), "value": rng.choice([0, 0, 1]), "tags": []}] * rng.choice(
            [1, 1, 3]
        )
    return json.dumps(items, indent=rng.choice([None, 2]))


def blocks(rng: random.Random) -> str:
    """Blocks of more than 60 characters that stand three to eight times in a row."""
    out: list[str] = ["A head of its own.\n"]
    for _ in range(3):
        size = rng.choice([70, 120, 400, 1_500])
        block = "".join(rng.choice(_WORDS) + rng.choice([" ", " ", "\n"]) for _ in range(size // 5))[:size]
        out += [block + rng.choice(["\n", "\n\n", ". ", ", "])] * rng.randint(3, 8)
        out.append("Something between them.\n")
    return "".join(out)


KINDS: dict[str, Callable[[random.Random], str]] = {
    "prose": prose,
    "code": code,
    "table": table,
    "log": log,
    "html": html,
    "csv": csv,
    "json": json_list,
    "blocks": blocks,
}
CUTS = 20_000
"""Cut places that a campaign tries over all kinds of text."""
