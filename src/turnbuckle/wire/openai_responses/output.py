"""The output of one response as it is written: items in their places, events in their order and numbered from
0.

Every item is added before it grows and done before the response is; a content part is added before its text.
Whoever writes decides what an item is and when it ends; here is only how that is said. `after` leaves out the
events up to a number, for a client that has them already: they are counted all the same, so the rest is what
it would have been.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from turnbuckle.wire.openai_responses.frames import ADDED, CALLS
from turnbuckle.wire.openai_responses.open_item import CALLED, GROWS, PREFIXES, OpenItem, summary_content
from turnbuckle.wire.openai_responses.shapes import response_body
from turnbuckle.wire.sse import frame

_json = msgspec.json.encode


class OutputWriter:
    """The bytes are whole frames. `base` are the fields of the response object that stay the same."""

    def __init__(self, base: Mapping[str, Any], *, after: int = -1) -> None:
        self.base = base
        self._stem = str(base["id"]).removeprefix("resp_")
        self._after = after
        self._sequence = 0
        self._places: list[OpenItem | dict[str, Any]] = []
        self._ids: set[str] = set()
        self._staged: dict[str, int] = {}  # places of others' items that are not whole, by their own id

    def open(self) -> bytes:
        body = response_body(self.base, "in_progress", [])
        return self.write("response.created", response=body) + self.write(
            "response.in_progress", response=body
        )

    @property
    def last_number(self) -> int:
        """The number of the last event; -1 before the first."""
        return self._sequence - 1

    def done_items(self) -> list[dict[str, Any]]:
        """The items that are done, in their order."""
        return [place for place in self._places if isinstance(place, dict)]

    def items(self) -> list[dict[str, Any]]:
        """All items, those that are not done as far as they are written."""
        return [place if isinstance(place, dict) else place.item("in_progress") for place in self._places]

    # One item

    def begin(self, known: OpenItem) -> bytes:
        """An item and its content part, if it has one, so that it can grow."""
        added = self.add(known)
        if known.kind in CALLED:
            return added
        if known.kind == "reasoning":
            return added + self._part(known, "response.reasoning_summary_part.added", summary_content(""))
        return added + self._part(known, "response.content_part.added", known.content(""))

    def add(self, known: OpenItem) -> bytes:
        """`output_item.added`, once."""
        if known.begun:
            return b""
        known.begun = True
        known.index = len(self._places)
        self._places.append(known)
        known.item_id = self._new_id(known)
        self._ids.add(known.item_id)
        name = f"{GROWS[known.kind]}.delta"
        fields = {"type": name, **known.where()}
        if known.kind == "text":
            fields["logprobs"] = []
        known.head = b'event: %b\ndata: %b,"sequence_number":' % (name.encode(), _json(fields)[:-1])
        return self.write(ADDED, output_index=known.index, item=known.item("in_progress", empty=True))

    def grow(self, known: OpenItem, text: str, beside: Mapping[str, Any] | None = None) -> bytes:
        """`beside` is what a provider says of this piece."""
        known.pieces.append(text)
        known.length += len(text)
        if beside:
            own: dict[str, Any] = {"logprobs": []} if known.kind == "text" else {}
            return self.write(
                f"{GROWS[known.kind]}.delta", **{**own, **beside, **known.where(), "delta": text}
            )
        number = self._sequence
        self._sequence = number + 1
        if number <= self._after:
            return b""
        return b'%b%d,"delta":%b}\n\n' % (known.head, number, _json(text))

    def whole(self, known: OpenItem) -> bytes:
        """What an item has grown to, told once more."""
        text = "".join(known.pieces)
        name = f"{GROWS[known.kind]}.done"
        match known.kind:
            case "call":
                item = known.item("completed")
                return self.write(name, **known.where(), arguments=item[CALLS[item["type"]]], name=known.name)
            case "custom":
                return self.write(name, **known.where(), input=text)
            case "ran":
                return self.write(name, **known.where(), arguments=text or "{}")
            case "reasoning":
                if not known.pieces:
                    return b""
                told = self.write(name, **known.where(), text=text)
                return told + self._part(known, "response.reasoning_summary_part.done", summary_content(text))
            case "refusal":
                told = self.write(name, **known.where(), refusal=text)
            case _:
                logprobs = known.content("")["logprobs"]
                told = self.write(name, **known.where(), text=text, logprobs=logprobs)
        return told + self._part(known, "response.content_part.done", known.content(text))

    def done(self, known: OpenItem, status: str) -> bytes:
        """`output_item.done`: nothing more comes to this item."""
        known.done = True
        item = self._places[known.index] = known.item(status)
        return self.write("response.output_item.done", output_index=known.index, item=item)

    def place(self, item: dict[str, Any]) -> bytes:
        """An item of somebody else that goes on: its stages and its end follow."""
        index = len(self._places)
        self._staged[str(item["id"])] = index
        item = {**item, "id": self._unused(str(item["id"]))}
        self._places.append(item)
        return self.write(ADDED, output_index=index, item=item)

    def is_placed(self, item_id: str) -> bool:
        """Whether such an item is there and goes on."""
        return item_id in self._staged

    def was_placed(self, item_id: str) -> bool:
        """Whether an item of somebody else with this id is or was there."""
        return item_id in self._ids

    def stage(self, item_id: str, event: Mapping[str, Any]) -> bytes:
        """How far it has got."""
        index = self._staged[item_id]
        named = {"item_id": self._id_at(index)} if "item_id" in event else {}
        return self.write(event["type"], **{**event, **named, "output_index": index})

    def stage_of(self, known: OpenItem, event: Mapping[str, Any]) -> bytes:
        """What somebody else says of an item that stands elsewhere here."""
        where = known.where()
        named = {name: where[name] for name in where if name in event or name == "output_index"}
        return self.write(event["type"], **{**event, **named})

    def settle(self, item: dict[str, Any]) -> bytes:
        """Such an item is whole."""
        return self._settle(self._staged.pop(str(item["id"])), item)

    def _settle(self, index: int, item: dict[str, Any]) -> bytes:
        item = self._places[index] = {**item, "id": self._id_at(index)}
        return self.write("response.output_item.done", output_index=index, item=item)

    def give_up(self) -> bytes:
        """The reply is over: what is not whole will not be."""
        left, self._staged = list(self._staged.values()), {}
        items = ((index, self._places[index]) for index in left)
        return b"".join(
            self._settle(index, {**item, "status": "failed"})
            for index, item in items
            if isinstance(item, dict)
        )

    def item(self, item: dict[str, Any]) -> bytes:
        """An item that is whole already, such as what a tool of ours gave back."""
        index = len(self._places)
        whole = {**item, "id": self._unused(str(item.get("id") or ""))}
        begun = {**whole, "status": "in_progress"} if "status" in whole else whole
        self._places.append(whole)
        return self.write(ADDED, output_index=index, item=begun) + self.write(
            "response.output_item.done", output_index=index, item=whole
        )

    def _id_at(self, index: int) -> str:
        place = self._places[index]
        return str(place["id"]) if isinstance(place, dict) else place.item_id

    def _unused(self, own: str) -> str:
        """The id of an item of somebody else, which may count its items from one in every response."""
        if not own or own in self._ids:
            own = f"item_{self._stem}_{len(self._places)}"
        self._ids.add(own)
        return own

    def _new_id(self, known: OpenItem) -> str:
        if known.kind == "reasoning" and known.state.get("type") == "reasoning":
            # Encrypted reasoning is bound to the id under which it was made.
            own = str(known.state.get("id") or "")
            if own and own not in self._ids:
                return own
        return f"{PREFIXES[known.kind]}_{self._stem}_{known.index}"

    # Frames

    def write(self, name: str, /, **fields: Any) -> bytes:
        """One event, with the next number."""
        number = self._sequence
        self._sequence = number + 1
        if number <= self._after:
            return b""
        return frame(_json({"type": name, "sequence_number": number, **fields}), name)

    def again(self, name: str, /, **fields: Any) -> bytes:
        """An event that is not one of the response's own, under the number of the last one."""
        return frame(_json({"type": name, "sequence_number": self.last_number, **fields}), name)

    def _part(self, known: OpenItem, name: str, part: dict[str, Any]) -> bytes:
        return self.write(name, **known.where(), part=part)
