"""Whether arguments fit a tool. Nothing is coerced: `"3"` is not 3, and an argument that nobody knows is
refused.

Our own tools are described by their Python types, and read by msgspec. Tools that come from elsewhere bring a
JSON schema, which is compiled once; it may not refer to anything outside itself, so that a check never opens
a connection.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

import jsonschema_rs
import msgspec

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

    def __init__(self, function: Callable[..., Any], context_type: type) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.context_name: str | None = None
        fields: list[Any] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{function.__name__}: {name} must be a plain named argument")
            if name not in hints:
                raise TypeError(f"{function.__name__}: {name} has no type")
            if hints[name] is context_type:
                self.context_name = name
                continue
            field = (name, _described(hints[name]))
            fields.append(field if parameter.default is parameter.empty else (*field, parameter.default))
        self._struct = msgspec.defstruct(function.__name__, fields, forbid_unknown_fields=True, kw_only=True)
        self._names = tuple(field[0] for field in fields)
        self.parameters = _inlined(msgspec.json.schema(self._struct), function.__name__)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            values = msgspec.convert(dict(arguments), self._struct, strict=True)
        except (msgspec.ValidationError, RecursionError) as error:
            raise Misfit(_in_words(str(error), self._names)) from error
        return {name: getattr(values, name) for name in self._names}


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


def _described(hint: Any) -> Any:
    """`Annotated[str, "what it is"]` in the words of msgspec."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *notes = get_args(hint)
    for note in notes:
        meta = msgspec.Meta(description=note) if isinstance(note, str) else note
        inner = Annotated[inner, meta]
    return inner


def _inlined(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema with the arguments at its top, as providers want it."""
    definitions: dict[str, Any] = schema["$defs"]
    top: dict[str, Any] = {key: value for key, value in definitions.pop(name).items() if key != "title"}
    return {**top, "$defs": definitions} if definitions else top


def _in_words(fault: str, names: tuple[str, ...]) -> str:
    text = (
        _TOKENS.sub("", fault)
        .replace("field", "argument")
        .replace("Object", "The call")
        .replace(" - at `$", ": `")
    )
    if "unknown" in fault:
        return f"{text}. Its arguments are: {', '.join(names) or 'none'}"
    return text
