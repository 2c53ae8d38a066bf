"""A run by a part of its id, for people who type."""

from turnbuckle.errors import RunUnknown
from turnbuckle.journal.port import Reader, StreamQuery
from turnbuckle.runtime.runs import KIND, listed
from turnbuckle.vocab.ids import RunId


async def find_run(journal: Reader, text: str) -> RunId:
    """The run with this id, or the only one whose id contains the text. Raises RunUnknown."""
    if await journal.head(text):
        return RunId(text)
    fits = [row.name for row in await listed(journal, StreamQuery(kind=KIND)) if text and text in row.name]
    if len(fits) == 1:
        return RunId(fits[0])
    if fits:
        raise RunUnknown(
            f"{text} fits {len(fits)} runs: {', '.join(fits[:5])}{' …' if len(fits) > 5 else ''}"
        )
    raise RunUnknown(f"there is no run {text}; `turnbuckle runs list` shows them all")
