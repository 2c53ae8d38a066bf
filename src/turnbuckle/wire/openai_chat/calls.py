"""Joining call fragments, although servers disagree about what names a call.

The book says: merge by `index`; id and name come once, first. In the wild all parallel calls share index 0,
or have no index, or no id, or a new id in each fragment; names come late, in pieces, or with every fragment.
The rules here are tried in the order written, and each is somebody's server:

1. a known (index, id), or a known id where no index is given, is that call, however fragments interleave;
2. a new id at a used index is a new call if it brings a name and does not go on in the middle of the JSON, or
   if it begins an object when the stored one is whole. The same name again while nothing or only a part of
   the object is there is a new id for each fragment of one call;
3. without an id, the index (or the place in the list) names the call, unless a name arrives when the stored
   arguments of a named call are already a whole object: then it is the next call. An empty object is no
   reason to think so, since hosts send one before the real one.

Calls that are told again in a whole message at the end are settled against these (`settle`), by id, by what
they say, then by place.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from turnbuckle.vocab.arguments import same_arguments, scan_object
from turnbuckle.vocab.events import CallArgs, CallNamed, CallRewritten, CallStarted, Event, StateNoted
from turnbuckle.wire.loose_json import whole_number
from turnbuckle.wire.openai_chat.frames import ChatDelta, ToolCall

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}]')
_BLANK = " \t\r\n"
_FEW = 10
_CALLED = ("function", "custom")
_TOLD = 1_000_000  # an index that no fragment has, for calls that only a whole message tells


class OpenCall:
    """One call that is being received. Pieces are kept only to tell whether the object is whole.

    Servers that repeat the name make us ask that at every fragment, so braces are counted over what is new
    since the last question. The text is read from its beginning only when they are even, and never again once
    it turned out to be no JSON.
    """

    __slots__ = (
        "_counted",
        "_depth",
        "_escaped",
        "_quoted",
        "_unfit",
        "beside",
        "block",
        "call_id",
        "id_given",
        "name",
        "pieces",
        "renamed",
        "signed",
    )

    def __init__(self, block: int, call_id: str, name: str, id_given: bool) -> None:
        self.block = block
        self.call_id = call_id
        self.name = name
        self.id_given = id_given
        self.renamed = False  # a fragment went on under another id
        self.signed = False  # it has provider state
        self.pieces: list[str] = []
        self.beside: dict[str, Any] = {}  # what else its provider says of it
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

    def is_hollow(self) -> bool:
        """Whether nothing but an empty object has come."""
        return len(self.pieces) < _FEW and "".join(self.pieces).strip(_BLANK) in ("", "{}")

    def takes_object(self) -> bool:
        """Whether an object can begin where the arguments stop: outside of a string, behind a colon or in a
        list."""
        self.has_whole_object()  # counts what is new
        return (
            bool(self.pieces) and not self._quoted and self.pieces[-1].rstrip(_BLANK)[-1:] in (":", "[", ",")
        )

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
    """Fragments in, events out. `number` gives a new call its block and, where the server gave none, its
    id."""

    def __init__(self, number: Callable[[str], tuple[int, str]]) -> None:
        self._number = number
        self._by_id: dict[tuple[int | None, str], OpenCall] = {}
        self.at_index: dict[int | None, OpenCall] = {}
        self.calls: list[OpenCall] = []

    def goes_on(self, delta: ChatDelta, calls: list[ToolCall], out: list[Event]) -> bool:
        """The usual fragment: more arguments of the call at a known index. False if it is anything else."""
        if len(calls) != 1 or delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            return False
        if delta.thinking or delta.refusal or delta.extra_content:
            return False
        found = calls[0]
        function = found.function
        if function is None or found.id or function.name:
            return False
        if found.extra_content is not None or found.thoughtSignature is not None or found.beside:
            return False
        call = self.at_index.get(found.index)  # type: ignore[arg-type]  # others are not in it
        piece = function.arguments
        if call is None or piece.__class__ is not str or not piece:
            return False
        call.pieces.append(piece)
        out.append(CallArgs(call.block, piece))
        return True

    def fragment(self, found: ToolCall, place: int, out: list[Event]) -> None:
        """One element of `tool_calls`; `place` is where it stands in that list."""
        name, arguments = _said_in(found)
        call_id = _clean_id(found.id)
        given = whole_number(found.index)
        index = given if given is not None else place
        known = self._by_id.get((given, call_id)) if call_id else None
        call = known or self._which(index, call_id, name, arguments)
        if call is None:
            call = self._begin(index, call_id, name, out)
        elif (name and name != call.name) or (call_id and not call.id_given):
            self._name_late(call, index, call_id, name, out)
        if call_id and not known and call_id != call.call_id:
            call.renamed = True
            self._note_id(call, index, call_id)
        if not call.pieces and arguments.strip(_BLANK) == "null":
            arguments = ""
        if arguments:
            call.pieces.append(arguments)
            out.append(CallArgs(call.block, arguments))
        if found.extra_content or found.thoughtSignature:
            self.sign(call, _state(found), out)
        if found.beside:
            self._note_beside(call, found.beside, out)

    def _note_beside(self, call: OpenCall, beside: dict[str, Any], out: list[Event]) -> None:
        """Fields of a call that nobody here knows: told again only if they have changed."""
        told = {
            name: {**call.beside.get(name, {}), **value} if name in _CALLED else value
            for name, value in beside.items()
        }
        if fresh := {name: value for name, value in told.items() if call.beside.get(name) != value}:
            call.beside.update(fresh)
            out.append(StateNoted(call.block, fresh))

    def sign(self, call: OpenCall, state: dict[str, Any], out: list[Event]) -> None:
        """Note a call's provider state."""
        call.signed = True
        out.append(StateNoted(call.block, state))

    def settle(self, told: list[ToolCall], out: list[Event]) -> None:
        """Calls of a whole message behind the fragments: what is known is not repeated, what is new is
        added."""
        left = list(self.calls)
        for place, found in enumerate(told):
            name, arguments = _said_in(found)
            call = _same_call(left, _clean_id(found.id), name, arguments, place)
            if call is None:
                if not self.calls or place >= len(self.calls) or name != self.calls[place].name:
                    self.fragment(msgspec.structs.replace(found, index=_TOLD + place), place, out)
                continue
            left.remove(call)
            if name and not call.name:
                self._name_late(call, _TOLD + place, "", name, out)
            have = "".join(call.pieces)
            if arguments and not same_arguments(have, arguments):
                more = arguments.removeprefix(have)
                call.pieces[:] = [arguments]
                goes_on = len(more) + len(have) == len(arguments)
                out.append(CallArgs(call.block, more) if goes_on else CallRewritten(call.block, arguments))
            if (found.extra_content or found.thoughtSignature) and not call.signed:
                self.sign(call, _state(found), out)
            if found.beside:
                self._note_beside(call, found.beside, out)

    def _which(self, index: int, call_id: str, name: str, arguments: str) -> OpenCall | None:
        current = self.at_index.get(index)
        if not call_id:
            if current is None or not name or not current.name:
                return current
            # A name that is only repeated, with nothing behind it, is not a further call.
            begins = arguments[:1] == "{" or (not arguments and name != current.name)
            if begins and name == current.name and current.is_hollow():
                return current
            return None if begins and current.has_whole_object() else current
        if current is None:
            return None
        begins = arguments.lstrip(_BLANK)[:1] == "{"
        goes_on = current.pieces and not current.has_whole_object()
        goes_on = goes_on and (not begins or current.renamed or current.takes_object())
        if name == current.name and current.id_given:
            if arguments and not current.pieces:
                return current  # its arguments come under another id
            if not arguments and current.renamed:
                return current  # another id, and nothing else
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


def _same_call(left: list[OpenCall], call_id: str, name: str, arguments: str, place: int) -> OpenCall | None:
    """The call among `left` that is told again: by its id, by what it says, or by where it stands."""
    named = [call for call in left if not name or not call.name or call.name == name]
    by_id = next((call for call in named if call_id and call.id_given and call.call_id == call_id), None)
    said = (call for call in named if call.name and same_arguments("".join(call.pieces), arguments))
    return by_id or next(said, None) or (named[0] if named and left and left[0] is named[0] else None)


def _said_in(found: ToolCall) -> tuple[str, str]:
    """The name and the argument text of a fragment."""
    function = found.function
    name = (function.name or "") if function is not None else ""
    arguments = _argument_text(function.arguments) if function is not None else ""
    if found.custom:
        name = name or str(found.custom.get("name") or "")
        arguments = arguments or str(found.custom.get("input") or "")
    return name, arguments


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
