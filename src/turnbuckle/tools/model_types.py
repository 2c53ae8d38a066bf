"""Types that pydantic knows: its models as arguments of tools, and as the form of an answer.

Pydantic is not a dependency: a type is recognised by what pydantic left on it, and only then is pydantic
imported, which whoever made the type has done already. Such a type is read as pydantic reads it, by the
model's own configuration; all other types are read by msgspec, which changes nothing on the way.
"""

import importlib
from typing import Any, Protocol, get_args

import msgspec

MAX_FAULTS = 5
_MARK = "__pydantic_validator__"
FITTING = (
    "use what JSON can hold, such as str, int, list, dict, a dataclass, a msgspec struct or a pydantic model"
)


class TypeMisfit(Exception):
    """A value does not fit its type. The text says what is wrong, in words for a model."""


class ValueReader(Protocol):
    """Reads values of one type."""

    schema: dict[str, Any]
    """As JSON schema, its definitions under `$defs`."""

    def read(self, value: Any) -> Any:
        """The value of that type. Raises TypeMisfit."""


def needs_pydantic(hint: Any) -> bool:
    """Whether a type is made by pydantic, or holds one that is."""
    return hasattr(hint, _MARK) or any(map(needs_pydantic, get_args(hint)))


def reader_of(hint: Any) -> ValueReader:
    """Raises TypeError for a type that nobody can read from JSON."""
    if needs_pydantic(hint):
        return _PydanticReader(hint)
    try:
        return _PlainReader(hint)
    except TypeError as error:
        name = hint.__name__ if isinstance(hint, type) else str(hint)
        raise TypeError(f"{name} cannot be described to a model: {FITTING}") from error


def plain_value(value: Any) -> Any:
    """What a tool returned that msgspec does not know: a model of pydantic as that writes it, and anything
    else as its own text."""
    return value.model_dump(mode="json") if hasattr(value, _MARK) else str(value)


class _PydanticReader:
    def __init__(self, hint: Any) -> None:
        pydantic = importlib.import_module("pydantic")
        self._adapter = pydantic.TypeAdapter(hint)
        self._error: type[Exception] = pydantic.ValidationError
        self.schema: dict[str, Any] = self._adapter.json_schema()

    def read(self, value: Any) -> Any:
        try:
            return self._adapter.validate_python(value)
        except self._error as error:
            faults: list[Any] = getattr(error, "errors")(include_url=False, include_input=False)  # noqa: B009
            told = [f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in faults[:MAX_FAULTS]]
            raise TypeMisfit("; ".join(told)) from error
        except RecursionError as error:
            raise TypeMisfit("it is nested too deeply") from error


class _PlainReader:
    def __init__(self, hint: Any) -> None:
        (schema,), found = msgspec.json.schema_components([hint], ref_template="#/$defs/{name}")
        reference = schema.get("$ref", "")
        if reference and reference not in str(found):  # it is not a part of itself
            schema = found.pop(reference.rpartition("/")[2])
        self.schema: dict[str, Any] = {**schema, "$defs": found} if found else schema
        self._hint = hint

    def read(self, value: Any) -> Any:
        try:
            return msgspec.convert(value, self._hint, strict=True)
        except (msgspec.ValidationError, RecursionError) as error:
            raise TypeMisfit(str(error)) from error
