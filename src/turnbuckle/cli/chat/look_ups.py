"""What the commands of a chat do that only look, and what those that change something have to say."""

import asyncio
import difflib
import os
from pathlib import Path

from turnbuckle.cli.backend import BackendRefused, SessionBackend
from turnbuckle.cli.chat.commands import Command, help_text
from turnbuckle.cli.chat.renderer import ChatPiece, CommandOutput
from turnbuckle.cli.follow import waste_lines
from turnbuckle.cli.pieces import Line, drawn
from turnbuckle.cli.table import minute_of, titled_lines
from turnbuckle.narrate.questions import change_lines
from turnbuckle.service.catalog import ON_ROUTE
from turnbuckle.service.sessions import SessionChange
from turnbuckle.session.commands import stopped_text
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.file_change import FileChange

LISTS = frozenset({"sessions", "runs"})
"""Commands whose answer is a list: each line of it is one row of the terminal, whatever its width."""
_TITLE = 200  # characters of a title in a list, where there is room for them


async def carried_out(command: Command, place: SessionBackend, session: str, run: str) -> str:
    """The answer to a command, as text. `run` is the one that is under way, or the last one. Raises Lost,
    Refused."""
    match command:
        case Command("help"):
            return help_text()
        case Command("status"):
            return await place.status(session)
        case Command("sessions", words):
            return await _sessions(place, words, session)
        case Command("runs"):
            return await _runs(place, session)
        case Command("drafts", rest):
            return await _drafts(place, session, rest.split())
        case Command("revert", path):
            if not run:
                return "nothing ran here yet"
            done = await place.revert(run, path)
            what = "is gone again" if done.kind == "created" else "is what it was before the run"
            return f"{done.path} {what}; the model is told with your next message"
        case Command("ledger"):
            return await _ledger(place, session, run)
        case _:
            raise BackendRefused(f"/{command.word} cannot be carried out here")


async def diff_pieces(place: SessionBackend, run: str, path: str) -> list[ChatPiece]:
    """What a run changed in files, as a diff."""
    found = await place.changes(run) if run else []
    wanted = [one for one in found if not path or one.path == path]
    if not wanted:
        named = ", ".join(one.path for one in found)
        said = f"the last run changed {named}" if named else "the last run changed no file by its file tools"
        return [CommandOutput(said)]
    pieces: list[ChatPiece] = []
    for one in wanted:
        change = FileChange(one.path, "", "", one.diff, one.added, one.removed, one.note)
        pieces += drawn(change_lines(change))
        if one.undone_at is not None:
            pieces.append(Line("  undone since"))
    return [*pieces, CommandOutput("/revert PATH makes a file what it was before")]


def change_text(done: SessionChange) -> str:
    """What was done to a session, in words."""
    match done.did:
        case "stopped":
            return stopped_text(done.run, len(done.refused))
        case "begun_anew":
            return "The next message begins a new conversation. What was said before is kept."
        case "undone":
            return "Undone: your last message and its answer. What tools did stays done."
        case "compaction_undone":
            return "Undone: the model gets the full history again, as far as it fits."
        case _:
            return "There is nothing to do."


async def routes_text(place: SessionBackend, session: str, chosen: str) -> str:
    """The routes that the agent can run on, with a mark at the one in use: `chosen` here, or that of the last
    run, or the usual one."""
    found = await place.routes()
    used = chosen or next((one.route for one in await place.runs(session)), "")
    if used not in (one.name for one in found):
        used = found[0].name if found else ""
    rows = [("* " if one.name == used else "  ") + one.name for one in found]
    wide = max(map(len, rows), default=0)
    lines = [f"{row:<{wide}}  {one.model}".rstrip() for row, one in zip(rows, found, strict=True)]
    return "\n".join([*lines, "/model NAME runs the agent on one of them, from the next message on."])


async def route_named(place: SessionBackend, name: str) -> str:
    """A route by its name. Raises BackendRefused, which names the nearest."""
    names = [one.name for one in await place.routes()]
    if name in names:
        return name
    if (plain := name.removeprefix(ON_ROUTE)) in names:
        return plain  # as other clients write it
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise BackendRefused(f"there is no route {name}; {hint}")


async def _sessions(place: SessionBackend, words: str, here: str) -> str:
    found = await place.sessions(words)
    rows = [
        (
            f"{'*' if one.name == here else ' '} {one.name}",
            minute_of(one.updated),
            "running" if one.running else "",
            shortened(one.title, _TITLE),
        )
        for one in found
    ]
    snippets = [shortened(one.snippet, _TITLE) for one in found]
    return "\n".join(titled_lines(("  session", "last used", "", "title"), rows, snippets)) or "no sessions"


async def _runs(place: SessionBackend, session: str) -> str:
    found = await place.runs(session)
    rows = [(one.id, one.status, shortened(one.title, _TITLE)) for one in found]
    return "\n".join(titled_lines(("run", "status", "task"), rows)) or "no runs yet"


async def _drafts(place: SessionBackend, session: str, words: list[str]) -> str:
    if not words:
        found = await place.drafts(session)
        lines = [f"{one.name}  {one.tool} {one.target}, {one.characters:,} characters" for one in found]
        return "\n".join(lines) or "no open drafts"
    if ":" not in words[1]:
        raise BackendRefused(f"there is no draft {words[1]}; /drafts lists them")
    text = await place.draft(words[1])
    if words[0] == "show":
        return text
    path = Path(words[2])
    try:
        await asyncio.to_thread(_write, path, text)
    except OSError as error:
        raise BackendRefused(f"{path} cannot be written: {error.strerror}") from None
    return f"wrote {len(text):,} characters to {path}"


async def _ledger(place: SessionBackend, session: str, run: str) -> str:
    if not (last := run or next((one.id for one in await place.runs(session)), "")):
        return "nothing was run yet"
    lines = waste_lines(await place.ledger(last))
    return "\n".join(line.text for line in lines if isinstance(line, Line)) or "nothing was wasted"


def _write(path: Path, text: str) -> None:
    """A new file; one that exists is left alone."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
        file.write(text)
