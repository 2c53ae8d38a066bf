"""What a client of one of the faces was told, as it stands in the frames that it got."""

from collections.abc import Iterable
from dataclasses import dataclass

from support.narrate.surfaces import joined, without_note
from support.server.live_server import Frame


@dataclass(frozen=True)
class Heard:
    """One answer, or as much of it as came. Its text has the paragraphs that every surface has."""

    face: str
    run: str
    frames: list[Frame]

    @property
    def is_whole(self) -> bool:
        """Whether the protocol's own last event came. An error that says how to come back is none."""
        if not self.frames:
            return False
        last = self.frames[-1]
        match self.face:
            case "chat":
                return last.data == b"[DONE]"
            case "responses":
                return last.event in ("response.completed", "response.incomplete")
            case _:
                return last.event == "message_stop"

    @property
    def text(self) -> str:
        told = [frame.json for frame in self.frames if frame.data.startswith(b"{")]
        match self.face:
            case "chat":
                deltas = [choice["delta"] for one in told for choice in one.get("choices", ())]
                return without_note("".join(delta.get("content") or "" for delta in deltas))
            case "responses":
                deltas = [one for one in told if one["type"] == "response.output_text.delta"]
                return _paragraphs((one["output_index"], one["delta"]) for one in deltas)
            case _:
                deltas = [one for one in told if one["type"] == "content_block_delta"]
                return _paragraphs((one["index"], one["delta"].get("text", "")) for one in deltas)

    def fault(self, output: str) -> str:
        """What is wrong with it, beside all that the run said; empty if nothing is."""
        said, text = output.rstrip("\n"), self.text.rstrip("\n")
        fits = text == said if self.is_whole else said.startswith(text)
        return "" if fits else f"{self.face} told {text!r} of {self.run}, which said {said!r}"


def _paragraphs(pieces: Iterable[tuple[int, str]]) -> str:
    """Each with the place where it stands."""
    blocks: dict[int, str] = {}
    for place, text in pieces:
        blocks[place] = blocks.get(place, "") + text
    return without_note(joined([blocks[place] for place in sorted(blocks)]))
