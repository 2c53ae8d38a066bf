"""The transcripts: bodies of answers, one file each, in a folder per protocol.

They are written by hand after what providers are known to send; `transcripts/README.md` says what each one shows.
"""

from pathlib import Path

from turnbuckle.vocab.ids import PROTOCOLS, Protocol

FOLDER = Path(__file__).parent / "transcripts"


def transcripts(protocol: Protocol) -> list[Path]:
    """All bodies of a protocol: streams (`.sse`) and plain answers (`.json`)."""
    return sorted(path for path in (FOLDER / protocol).iterdir() if path.suffix in (".sse", ".json"))


ALL: list[tuple[Protocol, Path]] = [(protocol, path) for protocol in PROTOCOLS for path in transcripts(protocol)]
IDS = [f"{protocol}-{path.stem}{path.suffix}" for protocol, path in ALL]
