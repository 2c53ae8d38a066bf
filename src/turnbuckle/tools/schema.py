"""Whether arguments fit a tool. Nothing is coerced: `"3"` is not 3, and an argument that nobody knows is
refused.

Our own tools are described by their Python types, and read by msgspec; types of pydantic are read by
pydantic. Tools that come from elsewhere bring a JSON schema, which is compiled once; it may not refer to
anything outside itself, so that a check never opens a connection.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

import jsonschema_rs
import msgspec

from turnbuckle.tools.model_types import FITTING, TypeMisfit, ValueReader, needs_pydantic, reader_of

MAX_FAULTS = 5
MOST_CHECKS = 5_000_000
"""Parts of a schema times parts of arguments: a check is done at once, and holds up everybody."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)

_TOKENS = re.compile(r"(?<=\$)\.")


class Misfit(Exception):
    """The arguments do not fit. The text says what is wrong, in words for the model."""


class ArgumentSchema(Protocol):
    """What a tool's arguments must look like."""

    @property
    def parameters(self) -> dict[str, Any]: ...

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The checked values, with defaults where they are left out. Raises `Misfit`."""


class TypedShape:
    """The arguments of a Python function, by its annotations."""

    def __init__(self, function: Callable[..., Any], context_types: tuple[type, ...]) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.context_name: str | None = None
        self.context_hint: Any = None
        self._readers: dict[str, ValueReader] = {}
        fields: list[Any] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{function.__name__}: {name} must be a plain named argument")
            if name not in hints:
                raise TypeError(f"{function.__name__}: {name} has no type")
            hint = hints[name]
            if hint in context_types or get_origin(hint) in context_types:
                self.context_name, self.context_hint = name, hint
                continue
            if needs_pydantic(hint):
                self._readers[name] = reader_of(hint)
                hint = _as_anything(hint)
            field = (name, _described(hint))
            fields.append(field if parameter.default is parameter.empty else (*field, parameter.default))
        self._struct = msgspec.defstruct(function.__name__, fields, forbid_unknown_fields=True, kw_only=True)
        self._names = tuple(field[0] for field in fields)
        try:
            schema = msgspec.json.schema(self._struct)
        except TypeError as error:
            raise TypeError(f"{function.__name__}: {_undescribed(fields)}: {FITTING}") from error
        self.parameters = _inlined(schema, function.__name__)
        for name, reader in self._readers.items():
            _put_schema(self.parameters, name, reader.schema)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            values = msgspec.convert(dict(arguments), self._struct, strict=True)
        except (msgspec.ValidationError, RecursionError) as error:
            raise Misfit(_in_words(str(error), self._names)) from error
        read = {name: getattr(values, name) for name in self._names}
        for name, reader in self._readers.items():
            if name in arguments:  # else its default stands
                try:
                    read[name] = reader.read(read[name])
                except TypeMisfit as error:
                    raise Misfit(f"{name}: {error}") from error
        return read


class ForeignShape:
    """Arguments by a JSON schema that came from somebody else. Raises ValueError if it is none. Providers may
    be `told` less of it than is checked."""

    def __init__(self, parameters: Mapping[str, Any], told: Mapping[str, Any] | None = None) -> None:
        self.parameters = dict(parameters if told is None else told)
        self._validator = jsonschema_rs.validator_for(
            dict(parameters), offline=True, pattern_options=_PATTERNS
        )
        self._size = _nodes(parameters)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._size * _nodes(arguments) > MOST_CHECKS:
            raise Misfit("There is too much in them to be checked. Make the call in smaller pieces")
        faults: list[str] = []
        for error in self._validator.iter_errors(dict(arguments)):
            where = ".".join(str(step) for step in error.instance_path)
            faults.append(f"{where}: {error.message}" if where else error.message)
            if len(faults) == MAX_FAULTS:
                break
        if faults:
            raise Misfit("; ".join(faults))
        return dict(arguments)


def _nodes(value: Any) -> int:
    """How many values there are in a value of JSON."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return count


def _undescribed(fields: list[Any]) -> str:
    """Which of them has a type that cannot be described to a model."""
    for name, hint, *_ in fields:
        try:
            msgspec.json.schema(hint)
        except TypeError:
            return f"the type of {name} cannot be described to a model"
    return "its types cannot be described to a model"


def _described(hint: Any) -> Any:
    """`Annotated[str, "what it is"]` in the words of msgspec."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *notes = get_args(hint)
    for note in notes:
        meta = msgspec.Meta(description=note) if isinstance(note, str) else note
        inner = Annotated[inner, meta]
    return inner


def _as_anything(hint: Any) -> Any:
    """A type that msgspec does not know, with what is said about it."""
    notes = (
        [note for note in get_args(hint)[1:] if isinstance(note, str)]
        if get_origin(hint) is Annotated
        else []
    )
    return Annotated[Any, notes[0]] if notes else Any


def _put_schema(parameters: dict[str, Any], name: str, schema: dict[str, Any]) -> None:
    """Describe an argument by a schema of its own; what that refers to stands beside that of the others."""
    own = {key: value for key, value in schema.items() if key != "$defs"}
    parameters["properties"][name] = {**own, **parameters["properties"][name]}
    for defined, what in schema.get("$defs", {}).items():
        if parameters.setdefault("$defs", {}).setdefault(defined, what) != what:
            raise TypeError(f"two types of the arguments are called {defined}")


def _inlined(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema with the arguments at its top, as providers want it."""
    definitions: dict[str, Any] = schema["$defs"]
    top: dict[str, Any] = {key: value for key, value in definitions.pop(name).items() if key != "title"}
    return {**top, "$defs": definitions} if definitions else top


def _in_words(fault: str, names: tuple[str, ...]) -> str:
    text = (
        _TOKENS.sub("", fault)
        .replace("Object missing required field", "The call lacks the required argument")
        .replace("field", "argument")
        .replace("Object", "The call")
        .replace(" - at `$", ": `")
    )
    if "unknown" in fault:
        return f"{text}. Its arguments are: {', '.join(names) or 'none'}"
    return text
