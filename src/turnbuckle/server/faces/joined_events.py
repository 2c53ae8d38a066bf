"""What is told of a run, with pieces that came right behind each other as one event.

A run of a hundred thousand pieces is told to a page that opens it in some hundred events. Only pieces that
are stored already and are read together are joined; whoever reads live gets each as it comes. A longer
silence between two pieces stays between two events, so that it can be drawn. The number of a joined event is
that of its last piece, so it is a cursor like any other; `from` is when its first piece came.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.narrate.told import CallGrown, Reasoning, Text, Told

QUIET = 1.0
"""Seconds; the console draws a longer silence as one."""
MOST = 256 * 1024  # characters of one event
_json = msgspec.json.encode
_TEXT = Text("")


class _OpenPieces(Struct):
    """Pieces that are being joined. `kind` is all of the value but its words."""

    kind: Text | Reasoning | CallGrown
    words: list[str]
    size: int
    began: float
    at: float
    seq: int


class PieceJoiner:
    """`words` and `values` take what is told of one fact after the other and give what goes out before it is
    joined or told; `flush` gives what is left."""

    def __init__(self) -> None:
        self._open: _OpenPieces | None = None

    def words(self, seq: int, at: float, text: str) -> bytes:
        """More words of the text before."""
        return self._join(_TEXT, seq, at, text)

    def values(self, seq: int, at: float, values: Sequence[Told]) -> bytes | None:
        """What is told. None if it is not a piece that can be joined: then it goes out by itself, behind
        `flush`."""
        if len(values) != 1:
            return None
        value = values[0]
        if isinstance(value, Reasoning) or (isinstance(value, CallGrown) and not value.rewritten):
            return self._join(replace(value, text=""), seq, at, value.text)
        return None

    def flush(self) -> bytes:
        """What was joined so far."""
        one, self._open = self._open, None
        if one is None:
            return b""
        told = replace(one.kind, text="".join(one.words))
        head = b'id: %d\nevent: streamed\ndata: {"seq":%d,"type":"streamed","at":%b' % (
            one.seq,
            one.seq,
            _json(one.at),
        )
        since = b"" if one.began == one.at else b',"from":%b' % _json(one.began)
        return b'%b%b,"told":[%b]}\n\n' % (head, since, _json(told))

    def _join(self, kind: Text | Reasoning | CallGrown, seq: int, at: float, text: str) -> bytes:
        one = self._open
        is_same = one is not None and (one.kind is kind or one.kind == kind)
        if one is not None and is_same and at - one.at <= QUIET and one.size < MOST:
            one.words.append(text)
            one.size += len(text)
            one.at, one.seq = at, seq
            return b""
        out = self.flush()
        self._open = _OpenPieces(kind, [text], len(text), at, at, seq)
        return out
