"""The output items of one response, and the blocks that their parts become.

An item is told three times: it is added, its parts grow by deltas, and it is given whole, in
`output_item.done` and once more in the terminal response. Servers leave out any of the three. So each telling
is settled against what is known: what is new is emitted, what is known is not repeated, and what contradicts
is said to.

Which item is meant. `output_index` names it. Some gateways send 0 for every item, or new ids with every
event, so an id that is known beats the index, and an item that was added under a used index replaces it
there. An item that is told as done is the one at its index, whatever its ids, if it can be: nothing of it
contradicts what was streamed. Items of the terminal response are matched by id, then by what they say, by
place, and by order among those of their type. Only what is left over then is new, so that no call runs again
because it got another id.

Tellings are compared as they were received. Reasoning between tags is taken out of a text only as it is
emitted.
"""

from collections.abc import Iterator
from typing import Any

from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    Event,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    Skipped,
    StageNoted,
    StateNoted,
    TextDelta,
)
from turnbuckle.wire.answer_fields import LARGEST, is_too_deep, shallow, unknown_fields
from turnbuckle.wire.openai_responses.answer_fields import PART, PART_FIELDS
from turnbuckle.wire.openai_responses.frames import ADDED, CALLS, PARTS, Spelling, StreamEvent
from turnbuckle.wire.openai_responses.namespaces import grouped_name
from turnbuckle.wire.openai_responses.parts import (
    APART,
    OutputItem,
    Part,
    annotation_of,
    fits,
    json_text,
    may_be,
    says_the_same,
    text_of,
    thoughts,
    word,
)
from turnbuckle.wire.payload import SAMPLE, whole_text
from turnbuckle.wire.text_blocks import Speech, TextBlocks
from turnbuckle.wire.think import Mode

_UNFINISHED = ("incomplete", "in_progress")
_READ = frozenset({"message", "reasoning", *CALLS})
"""Types of items that are read here. All others only their provider understands."""


class Output:
    """All items of a response. Methods put events into `out` and never raise."""

    def __init__(self, think: Mode = "auto") -> None:
        self.items: list[OutputItem] = []
        self._at: dict[object, OutputItem] = {}
        self._by_id: dict[str, OutputItem] = {}
        self._blocks = 0
        self._speech = Speech(think, self._next_block)
        self._answered: set[str] = set()
        self._room = LARGEST  # for annotations that are told before the whole
        self._annotations_size = 0
        self.hole = False  # something was lost; only what is told whole is taken

    def has_pending_calls(self) -> bool:
        """Whether a call waits for us. One whose output is here too was run by the other side."""
        return any(item.kind in CALLS and item.call_id not in self._answered for item in self.items)

    # While it grows

    def added(self, event: StreamEvent, out: list[Event]) -> None:
        found = event.item
        if not isinstance(found, dict) or not isinstance(found.get("type"), str):
            return
        found, item_id = shallow(found), word(found.get("id"))
        known = self._by_id.get(item_id) if item_id else self._at.get(event.output_index)
        if known is None or known.kind != found["type"] or not may_be(known, found):
            self._speech.release(out)
            item = self._begin(found["type"], item_id, event.output_index, found, out)
            if item_id and item.kind not in _READ and not self.hole:
                out.append(StageNoted(item_id, {"type": ADDED, "item": found}))

    def item_of(self, event: StreamEvent) -> OutputItem | None:
        """The item that an event is about."""
        return self._by_id.get(word(event.item_id)) or self._at.get(event.output_index)

    def is_opaque(self, event: StreamEvent) -> bool:
        """Whether it is about an item that only its provider understands."""
        item = self.item_of(event)
        return item is not None and item.kind not in _READ

    def annotated(self, event: StreamEvent, data: bytes, out: list[Event]) -> None:
        """What a text refers to is told with its state, all of it each time: so only as long as that is
        little. All of it comes with the whole item."""
        item, given = self.item_of(event), annotation_of(data)
        part = item.parts.get(event.content_index or 0) if item is not None else None
        if part is None or given is None or part.closed or self.hole or is_too_deep(given):
            return
        part.annotations.append(given)
        self._annotations_size += len(data)
        self._room -= self._annotations_size
        if self._room > 0:
            out.append(StateNoted(part.block, {"type": "message", "annotations": list(part.annotations)}))

    def part_added(self, event: StreamEvent, out: list[Event]) -> None:
        part = event.part
        spelling = PARTS.get(word(part.get("type"))) if isinstance(part, dict) else None
        if spelling is not None:
            self.growing(spelling, event, out)

    def part_done(self, event: StreamEvent, out: list[Event]) -> None:
        """Only a part that nobody here knows is told by this: any other has events of its own."""
        item, part = self.item_of(event), event.part
        if item is None or item.kind != "message" or self.hole:
            return
        if isinstance(part, dict) and word(part.get("type")) not in PARTS:
            self._put_strange(item, event.content_index or 0, part, out)

    def _put_strange(self, item: OutputItem, index: object, given: Any, out: list[Event]) -> None:
        """A part that only its provider understands, once: a message of its own, as every part is here."""
        if not isinstance(given, dict) or not given or index in item.strange:
            return
        item.strange.add(index)
        self._speech.release(out)
        block = self._next_block()
        made = {"type": "message", "role": "assistant", "status": "completed", "content": [shallow(given)]}
        out += [OpaqueBlock(block, made), BlockClosed(block)]

    def growing(self, spelling: Spelling, event: StreamEvent, out: list[Event]) -> Part | None:
        """The block that this delta belongs to, begun if need be; None if it cannot grow."""
        item = self._meant(spelling, event, out)
        if item is None:
            return None
        if spelling.item == "reasoning":
            return self._growing_thought(item, spelling, event, out)
        if spelling.item == "message":
            part = item.parts.get(event.content_index or 0)
            if part is None and not item.done:
                self._speech.release(out)
                part = self._begin_part(item, spelling, event.content_index or 0, out)
        else:
            part = item.parts.get(0)
        if part is None or part.closed or part.make is not spelling.make:
            return None
        return part

    def whole(self, spelling: Spelling, event: StreamEvent, out: list[Event]) -> None:
        """A part is given whole, behind its deltas or instead of them."""
        text = text_of(getattr(event, spelling.whole))
        part = self.growing(spelling, event, out) if text else None
        if part is not None:
            self._settle(part, text, out, start=part.begun_at)
            part.release(out)

    def was_told(self, event: StreamEvent) -> bool:
        """Whether the item that an event means was told whole, so that it can lack nothing."""
        item = self.item_of(event)
        return item is not None and item.done

    def _growing_thought(
        self, item: OutputItem, spelling: Spelling, event: StreamEvent, out: list[Event]
    ) -> Part | None:
        item.spelled = item.spelled or spelling.part
        part = item.parts.get(0)
        if part is None or part.closed or item.spelled != spelling.part:
            return None  # the same thoughts in their other spelling
        index = (event.summary_index if spelling.part == "summary" else event.content_index) or 0
        if part.index != index:
            part.index = index
            if part.pieces:
                part.pieces.append(APART)
                out.append(ReasoningDelta(part.block, APART))
            part.begun_at = len(part.pieces)
        return part

    def _meant(self, spelling: Spelling, event: StreamEvent, out: list[Event]) -> OutputItem | None:
        item_id = word(event.item_id)
        item = self._by_id.get(item_id) if item_id else None
        if item is None:
            item = self._at.get(event.output_index)
            if (
                item is None
                and event.output_index is None
                and self.items
                and self.items[-1].kind == spelling.item
            ):
                item = self.items[-1]
        if item is None:
            self._speech.release(out)
            return self._begin(spelling.item, item_id, event.output_index, {}, out)
        return item if item.kind == spelling.item else None

    # When it is whole

    def finished(self, event: StreamEvent, out: list[Event]) -> None:
        """`output_item.done`."""
        found = event.item
        if not isinstance(found, dict) or not isinstance(found.get("type"), str):
            return
        found, kind, item_id = shallow(found), found["type"], word(found.get("id"))
        item = self._by_id.get(item_id) if item_id else None
        if item is None or item.kind != kind:
            item = self._at.get(event.output_index)
            if item is None and event.output_index is None and self.items:
                item = self.items[-1]
        if item is None or item.kind != kind or not _is_told_again(item, item_id, found):
            self._speech.release(out)
            item = self._begin(kind, item_id, event.output_index, found, out)
        if not item.done:
            self._finish(item, found, found.get("status") != "incomplete", out)

    def take_rest(self, output: Any, completed: bool, out: list[Event]) -> None:
        """The terminal response: items that it alone tells, and the end of those that are still open."""
        items = output if isinstance(output, list) else ()
        found = [shallow(item) for item in items if isinstance(item, dict)]
        for told, item in self._matched(found, out):
            if not item.done:
                status = told.get("status")
                self._finish(
                    item, told, status == "completed" or (completed and status not in _UNFINISHED), out
                )
        if found and all(item.done for item in self.items):
            self.hole = False  # all of it was told whole
        if completed and not self.hole:
            for item in self.items:
                if not item.done and item.parts:
                    self._finish(item, item.seed, True, out)

    def give_back(self, out: list[Event]) -> None:
        """The response ended properly: if it has no text, reasoning that was never closed is its text."""
        self._speech.give_back(out)

    def release_held(self, out: list[Event]) -> None:
        """The response has ended: what was held back is not a tag, also where its item is not whole."""
        for item in self.items:
            for part in item.parts.values():
                part.release(out)

    def _matched(
        self, output: list[dict[str, Any]], out: list[Event]
    ) -> Iterator[tuple[dict[str, Any], OutputItem]]:
        """Each item that is told with the one that it is. One that is new begins only when its turn has
        come."""
        known = self._known(output)
        for told, named in zip(output, known, strict=True):
            kind, item = word(told.get("type")), named
            if item is None and kind:
                item = self._begin(kind, word(told.get("id")), None, told, out)
            if item is not None:
                yield told, item

    def _known(self, output: list[dict[str, Any]]) -> list[OutputItem | None]:
        """For each item that is told the one that it is, none of them twice: the surest evidence first."""
        found: list[OutputItem | None] = [None] * len(output)
        left = list(self.items)
        for is_same in (_has_its_call_id, _has_its_id, says_the_same, self._stands_there, _can_be):
            for place, told in enumerate(output):
                if found[place] is None:
                    kind = told.get("type")
                    item = next((one for one in left if one.kind == kind and is_same(one, told, place)), None)
                    if item is not None:
                        found[place] = item
                        left.remove(item)
        return found

    def _stands_there(self, item: OutputItem, told: dict[str, Any], place: int) -> bool:
        return self._at.get(place) is item and _can_be(item, told, place)

    def _finish(self, item: OutputItem, told: dict[str, Any], whole: bool, out: list[Event]) -> None:
        item.done = True
        if item.kind == "message":
            self._finish_message(item, told, whole, out)
        elif item.kind == "reasoning":
            self._finish_thought(item, told, whole, out)
        elif item.kind in CALLS:
            self._finish_call(item, told, whole, out)
        elif told:
            if item.kind.endswith("_call_output"):
                self._answered.add(word(told.get("call_id")))
            block = self._next_block()
            out.append(OpaqueBlock(block, told))
            if whole:
                out.append(BlockClosed(block))

    def _finish_message(self, item: OutputItem, told: dict[str, Any], whole: bool, out: list[Event]) -> None:
        content = told.get("content")
        frame = {key: value for key, value in told.items() if key not in ("content", "role")}
        for index, given in enumerate(content if isinstance(content, list) else ()):
            spelling = PARTS.get(word(given.get("type"))) if isinstance(given, dict) else None
            if spelling is None:
                self._put_strange(item, index, given, out)
                continue
            part = item.parts.get(index) or self._begin_part(item, spelling, index, out)
            if part.make is not spelling.make:
                out.append(
                    Skipped("a part of a message changed its kind", json_text(given)[:SAMPLE], harmless=True)
                )
                continue
            self._settle(part, text_of(given.get(spelling.whole)), out)
            if whole:
                part.release(out)
            if part.make is TextDelta:
                extra = {key: given[key] for key in ("annotations", "logprobs") if given.get(key)}
                if more := unknown_fields(given, PART):
                    extra[PART_FIELDS] = more
                out.append(StateNoted(part.block, {**frame, **extra}))
        if whole:
            for part in item.parts.values():
                part.release(out)
                part.close(out)

    def _finish_thought(self, item: OutputItem, told: dict[str, Any], whole: bool, out: list[Event]) -> None:
        part = item.parts[0]
        spelled = item.spelled or ("summary" if thoughts(told, "summary") else "content")
        text, have = thoughts(told, spelled), part.text()
        # A summary that was edited as it was made is not a loss: what goes back is the item, not the text.
        if text != have and text.startswith(have):
            self._settle(part, text, out)
        if told:
            out.append(StateNoted(part.block, told))
        if whole:
            part.closed = True
            out.append(BlockClosed(part.block))

    def _finish_call(self, item: OutputItem, told: dict[str, Any], whole: bool, out: list[Event]) -> None:
        part = item.parts[0]
        field = CALLS[item.kind]
        # The id under which it was announced stays: it may have been passed on.
        call_id = word(item.seed.get("call_id")) or word(told.get("call_id")) or item.call_id
        name = _name_of(told) or item.name
        if (call_id, name) != (item.call_id, item.name):
            item.call_id, item.name = call_id, name
            out.append(CallNamed(part.block, call_id, name))
        arguments = text_of(told.get(field))
        if arguments or not part.pieces:
            self._settle(part, arguments, out)
        state = {key: value for key, value in told.items() if key not in ("call_id", "name", field)}
        if state:
            out.append(StateNoted(part.block, state))
        if whole:
            part.closed = True
            out.append(CallClosed(part.block))

    # Beginning and settling

    def _begin(
        self, kind: str, item_id: str, index: object, found: dict[str, Any], out: list[Event]
    ) -> OutputItem:
        item = OutputItem(kind, item_id, found)
        self.items.append(item)
        if index is not None:
            self._at[index] = item
        if item_id:
            self._by_id[item_id] = item
        if kind in CALLS:
            part = item.parts[0] = Part(self._next_block(), CallArgs, 0)
            item.call_id = word(found.get("call_id")) or item_id or f"call_{part.block}"
            item.name = _name_of(found)
            out.append(CallStarted(part.block, item.call_id, item.name))
        elif kind == "reasoning":
            part = item.parts[0] = Part(self._next_block(), ReasoningDelta, 0)
            out.append(BlockStarted(part.block, "reasoning"))
            if found and item_id:
                # At once, because whoever passes the reasoning on must keep the id that it is bound to.
                out.append(StateNoted(part.block, {"type": kind, "id": item_id}))
        return item

    def _begin_part(self, item: OutputItem, spelling: Spelling, index: object, out: list[Event]) -> Part:
        block = self._next_block()
        spoken = TextBlocks(block, self._speech) if spelling.make is TextDelta else None
        part = item.parts[index] = Part(block, spelling.make, index, spoken)
        out.append(BlockStarted(part.block, "refusal" if spelling.make is RefusalDelta else "text"))
        return part

    def _settle(self, part: Part, text: str, out: list[Event], *, start: int = 0) -> None:
        have = part.text(start)
        if not text.startswith(have):
            # Halves of a character that came in two deltas are one character in the whole.
            have, text = whole_text(have), whole_text(text)
        if have == text:
            return
        part.pieces[start:] = [text]
        if text.startswith(have):
            part.say(text[len(have) :], out)
        elif part.make is CallArgs:
            out.append(CallRewritten(part.block, text))
        elif part.make is not ReasoningDelta:
            out.append(Skipped("the whole text differs from its pieces", text[:SAMPLE], harmless=True))

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1


def _name_of(found: dict[str, Any]) -> str:
    name, group = word(found.get("name")), word(found.get("namespace"))
    return grouped_name(group, name) if group and name else name


def _is_told_again(item: OutputItem, item_id: str, told: dict[str, Any]) -> bool:
    """Whether an item that is told as done is this one, which stands under its id or at its index."""
    if item.done:
        same_id = item.item_id == item_id and may_be(item, told)
        return same_id or says_the_same(item, told, 0)
    return item.kind not in CALLS or may_be(item, told) or fits(item, told)


def _has_its_call_id(item: OutputItem, told: dict[str, Any], _: int) -> bool:
    return bool(item.call_id) and item.call_id == word(told.get("call_id"))


def _has_its_id(item: OutputItem, told: dict[str, Any], _: int) -> bool:
    same = bool(item.item_id) and item.item_id == word(told.get("id"))
    return same and (may_be(item, told) or fits(item, told))


def _can_be(item: OutputItem, told: dict[str, Any], _: int) -> bool:
    return item.kind not in CALLS or may_be(item, told) or fits(item, told) or item.done
