"""Small falsehoods, made by changing what an honest encoder wrote: bytes in, bytes out."""

import msgspec

from turnbuckle.wire.protocol import Encoding

_CHARACTER = "漢".encode()


def lie_about_finish(encoding: Encoding, data: bytes, said: str | None) -> bytes:
    """Put another word, or none, where the reason to stop stands. Takes a document or frames."""
    if said is not None:
        said = encoding.finish_words.get(said, said)
    if data[:1] == b"{":
        value = msgspec.json.decode(data)
        encoding.relabel(value, said)
        return msgspec.json.encode(value)
    frames = data.split(b"\n\n")
    for place, frame in enumerate(frames):
        head, marker, document = frame.partition(b"data: ")
        if document[:1] == b"{":
            value = msgspec.json.decode(document)
            before = value.get("type", "")
            encoding.relabel(value, said)
            head = head.replace(before.encode(), value.get("type", "").encode())
            frames[place] = head + marker + msgspec.json.encode(value)
    return b"\n\n".join(frames)


def without_terminal(data: bytes) -> bytes:
    """Everything but the last frame."""
    return b"".join(frame + b"\n\n" for frame in data.split(b"\n\n")[:-2])


def half_a_character(frame: bytes) -> bytes:
    """The frame up to the middle of its first character of three bytes."""
    frame = frame.replace(b"\\u6f22", _CHARACTER)
    return frame[: frame.index(_CHARACTER) + 2]
