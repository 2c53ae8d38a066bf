"""Joining call fragments, although servers disagree about what names a call.

The book says: merge by `index`; id and name come once, first. In the wild all parallel calls share index 0, or
have no index, or no id, or a new id in each fragment; names come late, in pieces, or with every fragment. The
rules here are tried in the order written, and each is somebody's server:

1. a known (index, id), or a known id where no index is given, is that call, however fragments interleave;
2. a new id at a used index is a new call if it brings a name and does not go on in the middle of the JSON, or if
   it begins an object when the stored one is whole;
3. without an id, the index (or the place in the list) names the call, unless a name arrives when the stored
   arguments of a named call are already a whole object: then it is the next call.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from turnbuckle.vocab.arguments import scan_object
from turnbuckle.vocab.events import CallArgs, CallNamed, CallStarted, Event, StateNoted
from turnbuckle.wire.openai_chat.frames import ToolCall

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}]')


class OpenCall:
    """One call that is being received. Pieces are kept only to tell whether the object is whole.

    Servers that repeat the name make us ask that at every fragment, so braces are counted over what is new since
    the last question. The text is read from its beginning only when they are even, and never again once it turned
    out to be no JSON.
    """

    __slots__ = (
        "_counted",
        "_depth",
        "_escaped",
        "_quoted",
        "_unfit",
        "block",
        "call_id",
        "id_given",
        "name",
        "pieces",
    )

    def __init__(self, block: int, call_id: str, name: str, id_given: bool) -> None:
        self.block = block
        self.call_id = call_id
        self.name = name
        self.id_given = id_given
        self.pieces: list[str] = []
        self._counted = 0  # pieces whose braces were counted
        self._depth = 0
        self._quoted = self._escaped = False
        self._unfit = False

    def has_whole_object(self) -> bool:
        """Whether the arguments so far are one whole object."""
        for piece in self.pieces[self._counted :]:
            self._count(piece)
        self._counted = len(self.pieces)
        if self._depth or self._quoted or self._unfit or not self.pieces:
            return False
        text = "".join(self.pieces)
        if not text.strip():
            return False
        scan = scan_object(text)
        whole = scan.status == "whole" and not text[scan.at :].strip()
        self._unfit = not whole
        return whole

    def _count(self, piece: str) -> None:
        at = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        while match := (_IN_STRING if self._quoted else _OUTSIDE).search(piece, at):
            at = match.end()
            match match.group():
                case '"':
                    self._quoted = not self._quoted
                case "{":
                    self._depth += 1
                case "}":
                    self._depth -= 1
                case _:
                    self._escaped = at == len(piece)
                    at += 1

    def is_cut(self) -> bool:
        """Whether the arguments stop inside an object. None at all are whole: the call takes none."""
        text = "".join(self.pieces)
        return bool(text.strip()) and scan_object(text).status == "cut"


class CallMerger:
    """Fragments in, events out. `number` gives a new call its block and, where the server gave none, its id."""

    def __init__(self, number: Callable[[str], tuple[int, str]]) -> None:
        self._number = number
        self._by_id: dict[tuple[int | None, str], OpenCall] = {}
        self.at_index: dict[int | None, OpenCall] = {}
        self.calls: list[OpenCall] = []

    def fragment(self, found: ToolCall, place: int, out: list[Event]) -> None:
        """One element of `tool_calls`; `place` is where it stands in that list."""
        function = found.function
        name = (function.name or "") if function is not None else ""
        arguments = _argument_text(function.arguments) if function is not None else ""
        if found.custom:
            name = name or str(found.custom.get("name") or "")
            arguments = arguments or str(found.custom.get("input") or "")
        call_id = _clean_id(found.id)
        index = found.index if found.index is not None else place
        known = self._by_id.get((found.index, call_id)) if call_id else None
        call = known or self._which(index, call_id, name, arguments)
        if call is None:
            call = self._begin(index, call_id, name, out)
        elif (name and name != call.name) or (call_id and not call.id_given):
            self._name_late(call, index, call_id, name, out)
        if arguments:
            call.pieces.append(arguments)
            out.append(CallArgs(call.block, arguments))
        if found.extra_content or found.thoughtSignature:
            out.append(StateNoted(call.block, _state(found)))

    def _which(self, index: int, call_id: str, name: str, arguments: str) -> OpenCall | None:
        current = self.at_index.get(index)
        if not call_id:
            if current is None or not name or not current.name:
                return current
            # A name that is only repeated, with nothing behind it, is no further call.
            begins = arguments[:1] == "{" or (not arguments and name != current.name)
            return None if begins and current.has_whole_object() else current
        if current is None:
            return None
        goes_on = bool(arguments) and not arguments.lstrip().startswith("{") and current.pieces
        if not current.id_given and (not name or name == current.name) and not current.has_whole_object():
            return current
        if not name and arguments[:1] == "{" and current.has_whole_object():
            return None  # the next call, whose name is still to come
        if not name or (name == current.name and goes_on):
            return current  # a new id with each fragment of the same call
        return None

    def _begin(self, index: int, call_id: str, name: str, out: list[Event]) -> OpenCall:
        block, given = self._number(call_id)
        call = OpenCall(block, given, name, bool(call_id))
        self.at_index[index] = call
        if call_id:
            self._note_id(call, index, call_id)
        self.calls.append(call)
        out.append(CallStarted(block, given, name))
        return call

    def _name_late(self, call: OpenCall, index: int, call_id: str, name: str, out: list[Event]) -> None:
        if call_id and not call.id_given:
            call.call_id, call.id_given = call_id, True
            self._note_id(call, index, call_id)
        if name and name != call.name and not (call.name and call.pieces):
            # Before any argument a name may come in pieces, or grow and be repeated from its beginning.
            call.name = name if name.startswith(call.name) else call.name + name
        out.append(CallNamed(call.block, call.call_id, call.name))

    def _note_id(self, call: OpenCall, index: int, call_id: str) -> None:
        self._by_id[(index, call_id)] = call
        self._by_id[(None, call_id)] = call  # for servers that give no index


def _argument_text(arguments: str | dict[str, Any] | list[Any] | None) -> str:
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    return msgspec.json.encode(arguments).decode()


def _clean_id(found: str | int | None) -> str:
    if found is None:
        return ""
    text = str(found)
    return "" if text in ("null", "None") else text


def _state(found: ToolCall) -> dict[str, Any]:
    state: dict[str, Any] = {}
    if found.extra_content:
        state["extra_content"] = found.extra_content
    if found.thoughtSignature:
        state["thoughtSignature"] = found.thoughtSignature
    return state
