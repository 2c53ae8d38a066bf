"""The transcripts: bodies of answers, one file each, in a folder per protocol.

They are written by hand after what providers are known to send; `transcripts/README.md` says what each one shows.
"""

from pathlib import Path

from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

FOLDER = Path(__file__).parents[2] / "transcripts"


def transcripts(protocol: ProtocolName) -> list[Path]:
    """All bodies of a protocol: streams (`.sse`) and plain answers (`.json`)."""
    return sorted(path for path in (FOLDER / protocol).iterdir() if path.suffix in (".sse", ".json"))


ALL: list[tuple[ProtocolName, Path]] = [
    (protocol, path) for protocol in PROTOCOL_NAMES for path in transcripts(protocol)
]
IDS = [f"{protocol}-{path.stem}{path.suffix}" for protocol, path in ALL]
