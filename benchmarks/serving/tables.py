"""The figures as tables, and what the goals say about them."""

from collections.abc import Callable
from functools import partial

from serving.measures import PACED

Figures = dict[str, dict[str, float]]
Figure = Callable[[str], float | None]

RATE = 1000 / PACED.gap  # chunks a second of one paced stream


class Sheet:
    """Figures by contender; what was not measured is None."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures

    def get(self, who: str, name: str) -> float | None:
        return self.figures.get(who, {}).get(name)

    def ratio(self, name: str, who: str, to: str) -> float | None:
        own, other = self.get(who, name), self.get(to, name)
        return own / other if own is not None and other else None

    def times_direct(self, name: str, who: str) -> float | None:
        return self.ratio(name, who, "direct")

    def added(self, who: str) -> float | None:
        own, direct = self.get(who, "first"), self.get("direct", "first")
        return own - direct if own is not None and direct is not None else None

    def streams(self, who: str) -> float | None:
        paced = self.get(who, "paced")
        return 1e6 / (paced * RATE) if paced else None


def _cell(value: float | None, digits: int) -> str:
    return f"{'-':>15}" if value is None else f"{value:>15,.{digits}f}"


def _table(sheet: Sheet, title: str, columns: dict[str, tuple[Figure, int]]) -> None:
    rows = {who: [figure(who) for figure, _ in columns.values()] for who in sheet.figures}
    if all(value is None for values in rows.values() for value in values):
        return
    print(f"\n{title}\n")
    heads = [name.split("|") for name in columns]
    for line in range(max(len(head) for head in heads)):
        print(f"{'':<18}" + "".join(f"{head[line] if line < len(head) else '':>15}" for head in heads))
    for who, values in rows.items():
        cells = [_cell(value, digits) for value, (_, digits) in zip(values, columns.values(), strict=True)]
        if any(value is not None for value in values):
            print(f"{who:<18}" + "".join(cells))


def _of(sheet: Sheet, name: str, scale: float = 1.0) -> Figure:
    def figure(who: str) -> float | None:
        value = sheet.get(who, name)
        return None if value is None else value * scale

    return figure


def show(figures: Figures) -> None:
    sheet = Sheet(figures)
    _table(
        sheet,
        "one stream, and many slow ones",
        {
            "first text,|ms": (_of(sheet, "first"), 2),
            "added,|ms": (sheet.added, 2),
            "CPU of a|request, ms": (_of(sheet, "request", 1e-3), 2),
            "CPU a chunk,|burst, µs": (_of(sheet, "burst"), 1),
            "paced,|µs": (_of(sheet, "paced"), 1),
            "streams|a core": (sheet.streams, 0),
            "load's CPU,|burst, µs": (_of(sheet, "burst load"), 1),
            "load's CPU,|paced, µs": (_of(sheet, "paced load"), 1),
        },
    )
    for count in ("50", "200"):
        _table(
            sheet,
            f"{count} streams of 4 s at once",
            {
                "first text,|p50, ms": (_of(sheet, f"{count} p50", 1e3), 0),
                "p99,|ms": (_of(sheet, f"{count} p99", 1e3), 0),
                "wall,|s": (_of(sheet, f"{count} wall"), 2),
                "wall,|x direct": (partial(sheet.times_direct, f"{count} wall"), 2),
                "CPU a chunk,|µs": (_of(sheet, f"{count} cpu"), 1),
            },
        )
    _table(
        sheet,
        "memory (shared pages by their share) and start",
        {
            "idle,|MB": (_of(sheet, "idle"), 1),
            "resident,|MB": (_of(sheet, "idle resident"), 1),
            "a held chat|stream, kB": (_of(sheet, "chat"), 1),
            "a held event|reader, kB": (_of(sheet, "events"), 1),
            "31 MB not|read, MB": (_of(sheet, "unread"), 1),
            "start to first|answer, s": (_of(sheet, "start"), 2),
        },
    )
    _goals(sheet)


def _goals(sheet: Sheet) -> None:
    own = "turnbuckle"
    goals: list[tuple[str, float | None, float]] = [
        ("CPU a chunk in a burst, of litellm's", sheet.ratio("burst", own, "litellm"), 1 / 20),
        ("CPU a chunk in a burst, of hermes's", sheet.ratio("burst", own, "hermes"), 1 / 20),
        ("CPU a paced chunk, of litellm's", sheet.ratio("paced", own, "litellm"), 1 / 6),
        ("added time to first text, of litellm's", _share(sheet.added(own), sheet.added("litellm")), 1 / 5),
        ("200 streams: wall, of direct", sheet.ratio("200 wall", own, "direct"), 1.05),
        ("200 streams: first text p50, s", sheet.get(own, "200 p50"), 0.1),
        ("200 streams: first text p99, s", sheet.get(own, "200 p99"), 0.2),
        ("idle memory, MB", sheet.get(own, "idle"), 80),
        ("a further idle reader, kB", sheet.get(own, "events"), 60),
        ("start to first answer, s", sheet.get(own, "start"), 1),
    ]
    known = [(what, value, limit) for what, value, limit in goals if value is not None]
    if not known:
        return
    print("\ngoals\n")
    for what, value, limit in known:
        print(f"{what:<42}{value:>10.3f}  at most {limit:.3g}{'' if value <= limit else '   MISSED'}")


def _share(own: float | None, other: float | None) -> float | None:
    return own / other if own is not None and other else None
