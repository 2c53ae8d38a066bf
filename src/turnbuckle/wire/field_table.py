"""A request's body, described once: the reader and the schema of the document are made from the same table.

Theory of operation. A `Kind` is how one value is read and what its schema is. A `Field` has a name, a kind, a
sentence for people, and a fate: what becomes of it. A `FieldTable` reads an object in one pass over what was
given: values of known fields, checked, and beside them the rest, which nobody here knows, as it came.

Four fates. `ours` ends here. `translated` becomes an option, which every protocol can say in its own words.
`passed` goes to a provider of the same protocol as it came. `refused` would give another answer than the
client asked for, so it is refused by its name. What a table does not know is passed, too: a relay cannot know
every field that a host has invented. `rides` is what goes along of a field that is translated in part.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

from turnbuckle.wire.fields import LARGEST, Fields, keepable
from turnbuckle.wire.schemas import SOME_TEXT, TEXT, kind_of, listed, maybe

LONGEST_WORD = 512
"""Characters of a label, an id or a name that a client gives to something."""

Fate = Literal["ours", "translated", "passed", "refused"]


class Kind(Struct, frozen=True):
    """How one value is read, and its JSON schema. `read` gets the object and the field's name in it; it gives
    the value or raises `Refused`. It is not asked about what is not there."""

    read: Callable[[Fields, str], Any]
    schema: dict[str, Any]


def word_kind(*words: str) -> Kind:
    """A type or a role, which was looked at before."""
    return Kind(Fields.raw, kind_of(*words))


class Field(Struct, frozen=True):
    """One field. `becomes` is the option that it is translated into. `about` is a sentence for people; of a
    field that is refused it says why."""

    name: str
    kind: Kind
    about: str = ""
    fate: Fate = "passed"
    becomes: str = ""
    required: bool = False
    rides: Callable[[Any], Any] | None = None

    @property
    def schema(self) -> dict[str, Any]:
        made = self.kind.schema if self.required else maybe(self.kind.schema)
        return {**made, "description": self.about} if self.about else made


class FieldValues(Struct, frozen=True):
    """What an object holds: `values` of the fields that are known and there, and the `rest`, as it came."""

    values: dict[str, Any]
    rest: dict[str, Any]

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.values.get(name, otherwise)


class FieldTable:
    """The fields of one object, in the order in which people read of them."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self._named = {field.name: field for field in fields}
        self._required = tuple(field.name for field in fields if field.required)
        self._becoming = tuple((field.name, field.becomes) for field in fields if field.becomes)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def read(self, body: Fields) -> FieldValues:
        """All that is given. A null is the same as nothing. Raises `Refused`."""
        values: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name in self._required:
            if not body.has(name):
                raise body.missing(name)
        for name, value in body.items():
            field = self._named.get(name)
            if field is None:
                rest[name] = value
            elif value is not None:
                if field.fate == "refused" and value != []:
                    raise body.refused(name, f"is not supported: {field.about}.", "unsupported_parameter")
                values[name] = field.kind.read(body, name)
        if rest:
            keepable(rest, body.path or next(iter(rest)))
        return FieldValues(values, rest)

    def options(self, given: FieldValues) -> dict[str, Any]:
        """The values of fields that become options, by the options' names. Of two fields for the same one the
        later one wins."""
        values = given.values
        return {becomes: values[name] for name, becomes in self._becoming if name in values}

    def passed(self, body: Fields, given: FieldValues) -> dict[str, Any]:
        """What goes to a provider of the same protocol beside the options, as it came."""
        made: dict[str, Any] = {}
        for name in given.values:
            field = self._named[name]
            if field.fate == "passed":
                made[name] = body.raw(name)
            elif field.rides is not None and (along := field.rides(body.raw(name))):
                made[name] = along
        if made:
            keepable(made, body.path or next(iter(made)))
        return {**made, **given.rest}

    def schema(self, about: str = "", **more: Any) -> dict[str, Any]:
        """The schema of the object. `more` are properties that are read elsewhere."""
        told = {field.name: field.schema for field in self.fields if field.fate != "refused"}
        made: dict[str, Any] = {"type": "object", "properties": {**told, **more}}
        if self._required:
            made["required"] = list(self._required)
        return {**made, "description": about} if about else made


# Kinds that any protocol has


def text(most: int | None = None) -> Kind:
    schema = TEXT if most is None else {**TEXT, "maxLength": most}
    return Kind(lambda body, name: body.text(name, most=most), schema)


def some_text(most: int | None = None) -> Kind:
    """A string that says something."""
    schema = SOME_TEXT if most is None else {**SOME_TEXT, "maxLength": most}
    return Kind(lambda body, name: body.need_text(name, most=most), schema)


def number(low: float, high: float) -> Kind:
    schema = {"type": "number", "minimum": low, "maximum": high}
    return Kind(lambda body, name: body.number(name, low, high), schema)


def count(low: int, high: int = LARGEST) -> Kind:
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Kind(lambda body, name: body.count(name, low, high), schema)


def texts(most: int) -> Kind:
    return Kind(lambda body, name: body.texts(name, most), listed(TEXT, most))


def one_of(*words: str) -> Kind:
    def read(body: Fields, name: str) -> str:
        value = body.text(name)
        if value not in words:
            raise body.refused(name, f"must be {', '.join(words[:-1])} or {words[-1]}.")
        return value

    return Kind(read, {"enum": list(words)})


def inner(table: FieldTable) -> Kind:
    """An object with a table of its own; its fields that nobody knows stay in it."""
    return Kind(lambda body, name: table.read(body.need_inner(name)), table.schema())


FLAG = Kind(Fields.flag, {"type": "boolean"})
WORD = text(LONGEST_WORD)
OBJECT = Kind(Fields.kept, {"type": "object"})
"""An object that is kept as it came."""
OBJECTS = Kind(lambda body, name: body.objects(name, LARGEST), listed({"type": "object"}))
