"""What a look at a whole journal finds, whatever it is kept in."""

from msgspec import Struct


class StreamDamage(Struct, frozen=True):
    """Damage in one stream: `seq` is the first item that is lost, `lost` how many are, if they can be
    counted."""

    stream: str
    seq: int | None
    lost: int
    why: str


class JournalReport(Struct, frozen=True):
    """What was found. `structure` is what the database says about itself. `kept` is where `mend` left the old
    file."""

    format: int
    streams: int
    items: int
    bytes: int
    problems: tuple[StreamDamage, ...] = ()
    structure: tuple[str, ...] = ()
    kept: str = ""

    @property
    def sound(self) -> bool:
        return not self.problems and not self.structure
