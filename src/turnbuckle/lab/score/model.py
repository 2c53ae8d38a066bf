"""The model behind the scorecard's provider: sane, whatever is done to its connection.

Theory of operation. It has something to say or to write. Asked again it starts fresh; shown the beginning of
its own words, in whatever form, it goes on behind them; with the result of its call it is content. Only its
connection breaks, in the first requests of a trial and in the way that the trial says; from then on it works.
So every way to heal can succeed: asking again before anything was shown, going on behind a seam, keeping a
draft, asking for smaller pieces. What it does follows from the request and its number alone.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Struct

from turnbuckle.lab.received import (
    asked_reading,
    brings_results,
    last_result,
    last_user_text,
    messages_of,
    results_brought,
    shown_draft,
)
from turnbuckle.lab.score.tale import CUTS, LEFT, NOTE, SHORT_NOTE, TALE, WRITTEN
from turnbuckle.lab.score.tools import Deed, Handle, flat_text, handle, offered
from turnbuckle.lab.script import (
    Call,
    Comments,
    CutOff,
    Dribble,
    Finish,
    Frame,
    KillAfter,
    LabRequest,
    Raw,
    Say,
    Script,
    ScriptItem,
    Stall,
    When,
    chat_chunk,
)

KILLED_AFTER = 4_000
PIECE = 3_000  # whole lines
OVERLAP = 30
_LEAST_SHOWN = 16  # characters of its own words that the model knows again; fewer may be chance
_AFTER = 60
_DELTA = 40
_DONE = "data: [DONE]\n\n"
_ASKED_FOR_LESS = re.compile(
    r"smaller|split|truncat|in pieces|\bcut\b|too long|shorter|chunks", re.IGNORECASE
)


class PlayState(Struct, frozen=True):
    """What the model knows of one play. `number` counts its requests from 1; `paths` are the files to write,
    `mark` is one that the cut command would make; `slow` is a pause, in seconds, that everybody should
    bear."""

    request: LabRequest
    number: int
    paths: tuple[str, ...]
    mark: str
    slow: float

    def tool(self, deed: Deed) -> Handle | None:
        return handle(offered(self.request), deed)

    @property
    def history(self) -> str:
        return flat_text(msgspec.to_builtins(messages_of(self.request)))


Model = Callable[[PlayState], Script]


# It tells something


def shown_before(history: str, text: str) -> int:
    """How much of its own words the model is shown, from their beginning."""
    start = history.rfind(text[:_LEAST_SHOWN])
    if start < 0:
        return 0
    most = min(len(text), len(history) - start)
    return next((place for place in range(most) if history[start + place] != text[place]), most)


def goes_on(scene: PlayState, text: str = TALE, overlap: int = 0) -> Script:
    """The rest of a text, and a proper end."""
    return (Say(text[max(shown_before(scene.history, text) - overlap, 0) :]), Finish())


def broken(*breaks: Script, overlap: int = 0) -> Model:
    """Breaks in the first requests, each in its way, and works from then on."""

    def model(scene: PlayState) -> Script:
        return breaks[scene.number - 1] if scene.number <= len(breaks) else goes_on(scene, overlap=overlap)

    return model


def half(*then: ScriptItem, at: str = "word") -> Script:
    """The tale up to one of its places, and something else."""
    return (Say(TALE[: CUTS[at]]), *then)


def slow(scene: PlayState) -> Script:
    return (Stall(scene.slow), *goes_on(scene))


def only_comments(scene: PlayState) -> Script:
    return half(Comments("forever", scene.slow / 5), at="end") if scene.number == 1 else goes_on(scene)


def in_bytes(text: str) -> Model:
    """Every byte in a write of its own."""
    return lambda scene: (Dribble(1), *goes_on(scene, text))


def pauses(scene: PlayState) -> Script:
    """Slow in the middle, so that a client can leave there."""
    before = shown_before(scene.history, TALE)
    return (
        Say(TALE[before : CUTS["word"]]),
        Stall(scene.slow / 5),
        Say(TALE[max(before, CUTS["word"]) :]),
        Finish(),
    )


def hole() -> Script:
    """Some words of the tale are lost in an event that cannot be read."""
    at = CUTS["word"]
    lost: Script = (
        Raw('data: {"id":"lab","choices":[{"index":0,"delta":{"content":"\n\n'),
        Say(TALE[at + 20 :]),
        Finish(),
    )
    return half(When("openai_chat streaming", lost, (CutOff("reset"),)))


# It does something


def writes(first: Callable[[Handle, str], Script]) -> Model:
    """Its first call goes as it is told to, the next one is whole."""

    def model(scene: PlayState) -> Script:
        tool = scene.tool("write")
        if tool is None or (
            brings_results(scene.request) and scene.number > 1 and _is_written(scene, SHORT_NOTE)
        ):
            return goes_on(scene, WRITTEN)
        if scene.number == 1:
            return first(tool, tool.text(SHORT_NOTE, scene.paths[0]))
        return _all_written(scene, tool)

    return model


def cut_call(tool: Handle, arguments: str) -> Script:
    return (Call(tool.name, _most(arguments), _DELTA, closed=False), CutOff("reset"))


def lying_call(tool: Handle, arguments: str) -> Script:
    return (Call(tool.name, _most(arguments), _DELTA), Finish("calls"))


def whole_call(tool: Handle, arguments: str) -> Script:
    return (Call(tool.name, arguments, _DELTA), Finish())


def commands(scene: PlayState) -> Script:
    """A command that is cut behind the part that leaves a trace. The model does not want it any more."""
    tool = scene.tool("command")
    if tool is None or scene.number > 1:
        return goes_on(scene, LEFT)
    return (Call(tool.name, cut_command(tool, scene.mark), 0, closed=False), CutOff("reset"))


def cut_command(tool: Handle, mark: str) -> str:
    """The arguments as far as they come: whoever mends and runs them leaves a trace."""
    arguments = tool.text(f"touch '{mark}'; echo made; echo this is the rest")
    return arguments[: arguments.index("this is")]


def writes_much(scene: PlayState) -> Script:
    """Every stream is cut after so many characters of arguments. It finishes a draft if it is asked to; asked
    for less at a time it writes one piece and appends the others, by a command if need be; else it does the
    same again."""
    write, (path, *_) = scene.tool("write"), scene.paths
    brought = brings_results(scene.request)
    if write is None or (brought and _is_written(scene, NOTE)):
        return goes_on(scene, WRITTEN)
    kill = KillAfter(arguments=KILLED_AFTER, how="fin")  # a reset may swallow what was sent before it
    if question := asked_reading(last_result(scene.request) if brought else last_user_text(scene.request)):
        return (
            Call("finish_call", {"draft": question, "after": "", "rest": "", "reading": "a"}, _DELTA),
            Finish(),
        )
    asked = shown_draft(last_user_text(scene.request))
    if asked is not None and asked.tail in NOTE:
        tail = asked.tail
        rest = {"draft": asked.id, "after": tail[-_AFTER:], "rest": NOTE[NOTE.index(tail) + len(tail) :]}
        return (kill, Call("finish_call", rest, _DELTA), Finish())
    asked_for_less = brought or (scene.number > 1 and _ASKED_FOR_LESS.search(scene.history))
    piece = _piece(scene, write, path) if asked_for_less else None
    return (kill, piece or Call(write.name, write.text(NOTE, path), _DELTA), Finish())


def _piece(scene: PlayState, write: Handle, path: str) -> Call | None:
    """The next piece of the long note, if there is a way to append."""
    append, command, done = scene.tool("append"), scene.tool("command"), results_brought(scene.request)
    piece = NOTE[done * PIECE : (done + 1) * PIECE]
    if append is None and command is None:
        return None
    if not done:
        return Call(write.name, write.text(piece, path), _DELTA)
    if append is not None:
        return Call(append.name, append.text(piece, path), _DELTA)
    return None if command is None else Call(command.name, command.text(appending(piece, path)), _DELTA)


def appending(piece: str, path: str) -> str:
    """A shell command that appends whole lines to a file."""
    return f"cat >> '{path}' <<'END'\n{piece}END"


def on_one_index(scene: PlayState) -> Script:
    """Two calls on index 0, told apart by their ids; by the book in protocols that cannot mix them up."""
    tool = scene.tool("write")
    if tool is None or brings_results(scene.request):
        return goes_on(scene, WRITTEN)
    frames = (
        _call_frame(f"call_{scene.number}_{place}", tool.name, tool.text(SHORT_NOTE, path))
        for place, path in enumerate(scene.paths)
    )
    mixed: Script = (*frames, chat_chunk({}, "tool_calls"), Raw(_DONE))
    return (When("openai_chat streaming", mixed, _all_written(scene, tool)),)


def told_twice(scene: PlayState) -> Script:
    """A whole call, and behind it the whole message with the same call under another id."""
    tool = scene.tool("write")
    if tool is None or brings_results(scene.request):
        return goes_on(scene, WRITTEN)
    arguments = tool.text(SHORT_NOTE, scene.paths[0])
    function = {"name": tool.name, "arguments": arguments}
    call = {"id": f"call_{scene.number}_again", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    whole = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    told: Script = (
        _call_frame(f"call_{scene.number}_0", tool.name, arguments),
        Frame({"id": "lab", "object": "chat.completion", "created": 0, "model": "lab", "choices": [whole]}),
        Raw(_DONE),
    )
    return (When("openai_chat streaming", told, _all_written(scene, tool)),)


def _all_written(scene: PlayState, tool: Handle) -> Script:
    return (*(Call(tool.name, tool.text(SHORT_NOTE, path), _DELTA) for path in scene.paths), Finish())


def _is_written(scene: PlayState, note: str) -> bool:
    """Whether the history holds a call that has the last line of it."""
    return note.splitlines()[-1] in scene.history


def _most(arguments: str) -> str:
    return arguments[: len(arguments) * 2 // 3]


def _call_frame(call: str, name: str, arguments: str) -> Frame:
    function = {"name": name, "arguments": arguments}
    return chat_chunk({"tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}]})


BARE_DONE: Script = (When("openai_chat streaming", (Raw(_DONE),)), CutOff("tidy"))
"""What a relay sends that has lost its upstream."""
TWO_REASONS: Script = (
    When(
        "openai_chat streaming",
        (chat_chunk({}, "length"), chat_chunk({}, "stop"), Raw(_DONE), CutOff("tidy")),
    ),
    Finish("length"),
)
