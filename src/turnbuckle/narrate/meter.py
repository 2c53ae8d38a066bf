"""What a run uses while it goes on: its route, how full the window is, and what it has cost so far."""

from turnbuckle.narrate.told import ModelCalled, ReplyOver, RunOver, Told, UsageCounted
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.prices import is_uncounted, money_text, of_limit


class Meter:
    """`take` what is told of a run; `words` is one line for a person, empty while no model was asked."""

    def __init__(self) -> None:
        self.route = ""
        self.used = 0
        self.window: int | None = None
        self.cost: float | None = None
        self.unpriced = 0
        self.tokens = 0
        self.max_money: float | None = None
        self.max_tokens: int | None = None
        self._usage: Usage | None = None
        self._summary = 0
        self._uncounted = False  # all calls of the run broke before anybody counted

    def take(self, told: Told) -> None:
        match told:
            case ModelCalled(attempt=attempt, why="compact"):
                self._summary, self._usage = attempt, None
            case ModelCalled():
                self.route, self.used, self.window = told.route, told.expected, told.window
                self.max_money, self.max_tokens = told.max_money, told.max_tokens
                self._usage = None
            case UsageCounted(attempt, usage):
                self._usage = usage
                if attempt != self._summary and usage.input:
                    self.used = usage.input + (usage.output or 0)
            case ReplyOver(cost=cost):
                if self._usage is not None:
                    self.tokens += (self._usage.input or 0) + (self._usage.output or 0)
                if cost is not None:
                    self.cost = (self.cost or 0.0) + cost
                elif self._usage is not None:
                    self.unpriced += 1
            case RunOver(spent=spent) if spent is not None:
                self.cost, self.unpriced, self.tokens = spent.cost, spent.unpriced_calls, spent.tokens
                self._uncounted = is_uncounted(spent)
            case _:
                pass

    @property
    def words(self) -> str:
        if not self.route:
            return ""
        share = f" ({self.used * 100 // self.window} %)" if self.window else ""
        context = f"context {self.used:,}{share}" if self.used else ""
        unknown = self.unpriced + self._uncounted
        cost = money_text(self.cost, unknown) if self.cost is not None or unknown else ""
        if self.max_money is not None:
            cost = (cost or money_text(0.0)) + of_limit(
                self.max_money, known=self.cost is not None or not unknown
            )
        tokens = "" if self.max_tokens is None else f"{self.tokens:,} of {self.max_tokens:,} tokens"
        return " · ".join(part for part in (self.route, context, tokens, cost) if part)
