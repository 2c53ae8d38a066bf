"""What a program may choose for one run, and the form in which it wants the answer."""

import re
from functools import reduce
from typing import Any, Generic, TypedDict, TypeVar

import msgspec
from msgspec import Struct

from turnbuckle.agent.result import Result
from turnbuckle.session.facts import Busy
from turnbuckle.tools.model_types import TypeMisfit, reader_of
from turnbuckle.turn.structured import NOT_THE_DOCUMENT
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.prices import together
from turnbuckle.vocab.request import RunLimits

T = TypeVar("T")
OUTPUT_RETRIES = 2
"""How often an answer that does not fit is asked for again."""
_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.S)
"""A document in a code block, as models write it that were asked in words."""
_AGAIN = (
    "Your answer does not have the form that was asked for: {fault}. "
    "Answer again with the whole JSON document, and with nothing else."
)


class Budget(Struct, frozen=True):
    """Limits of one run, below those of the settings. Reaching one ends the run cleanly, as `partial`.
    `money` is US dollars, and counts where the price of the model is known."""

    money: float | None = None
    tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (most := getattr(self, name)) is not None and most < 0:
                raise ValueError(f"a budget of {most} {name.replace('_', ' ')} cannot be meant")

    @property
    def limits(self) -> RunLimits:
        return RunLimits(self.model_calls, self.seconds, self.tokens, self.money)


class RunChoices(TypedDict, total=False):
    """Options of `run`, `stream` and `start`."""

    session: str
    key: str
    busy: Busy | None
    route: str
    budget: Budget
    instructions: str
    deps: Any


class ResultOf(Result, Generic[T], frozen=True):
    """A result whose answer has a form. `output` is None if the run did not come to such an answer; `why`
    says so then."""

    output: T | None = None


class OutputForm(Generic[T]):
    """The form of an answer: a pydantic model, a dataclass, a msgspec struct, a list of them … `str` is the
    plain text."""

    def __init__(self, kind: type[T]) -> None:
        self._reader = reader_of(kind)
        self._name = getattr(kind, "__name__", "answer")
        self._is_text = kind is str

    @property
    def response_format(self) -> dict[str, Any] | None:
        if self._is_text:
            return None
        return {"type": "json_schema", "json_schema": {"name": self._name, "schema": self._reader.schema}}

    def read(self, result: Result) -> T:
        """The answer. Raises TypeMisfit."""
        said = [message for message in result.messages if message.role == "assistant"]
        text = text_of(said[-1].parts) if said else ""
        if self._is_text:
            return self._reader.read(text)  # type: ignore[no-any-return]
        fenced = _FENCED.fullmatch(text)
        try:
            document = msgspec.json.decode(text if fenced is None else fenced[1])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise TypeMisfit(f"it is not one JSON document ({error})") from error
        found: T = self._reader.read(document)
        return found


def result_of_tries(tries: list[Result], output: T | None, fault: str = "") -> ResultOf[T]:
    """One result of all tries: the last one, with what all of them have used."""
    last = tries[-1]
    fields = {name: getattr(last, name) for name in last.__struct_fields__}
    fields["spent"] = reduce(together, (result.spent for result in tries))
    for name in ("model_calls", "tool_calls"):
        fields[name] = sum(getattr(result, name) for result in tries)
    if not fault and last.outcome == "partial" and last.why.startswith(NOT_THE_DOCUMENT):
        fields |= {"outcome": "completed", "why": ""}  # it was read all the same
    if fault and last.ok:
        fields |= {"outcome": "partial", "why": f"{NOT_THE_DOCUMENT}: {fault}"}
    return ResultOf(**fields, output=output)


def ask_again(misfit: TypeMisfit) -> str:
    """What the model is told of an answer that does not fit."""
    return _AGAIN.format(fault=misfit)
