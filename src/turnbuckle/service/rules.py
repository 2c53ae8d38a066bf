"""What people have allowed for good: looked at, and taken away. Each owner sees their own."""

from typing import Literal

from msgspec import Struct

from turnbuckle.errors import RuleUnknown
from turnbuckle.journal.port import StorageFailed
from turnbuckle.runtime.consent_book import GivenRule, RuleBook
from turnbuckle.service.owners import LOCAL, Owner
from turnbuckle.turn.consent import rule_text


class RuleView(Struct, frozen=True):
    """A rule that "always" has written. `text` is the rule as settings would have it. With
    `bound_to_description` it holds only while the server that offers the tool describes it as it did then.
    `owner` is whose runs it holds for."""

    id: str
    tool: str
    pattern: str
    text: str
    owner: str
    created_at: float
    bound_to_description: bool = False
    object: Literal["rule"] = "rule"


class RuleService:
    """All surfaces share one."""

    def __init__(self, book: RuleBook) -> None:
        self._book = book

    async def list(self, owner: Owner) -> list[RuleView]:
        """The oldest first. Raises StorageError."""
        return [rule_view(rule) for rule in await self._book.listed(owner)]

    async def remove(self, rule: str, owner: Owner) -> RuleView:
        """The next call that it would have allowed is asked about. Raises RuleUnknown, and StorageFailed if
        it cannot be stored; the rule still holds then."""
        try:
            gone = await self._book.remove(rule, None if owner is None else owner or LOCAL)
        except OSError as error:
            raise StorageFailed(f"the rule is still there: {error.strerror or error}") from None
        if gone is None:
            raise RuleUnknown.named(rule)
        return rule_view(gone)

    async def words(self, owner: str) -> str:
        """The same as a list for a person."""
        rules = await self.list(owner)
        if not rules:
            return "Nothing is always allowed."
        lines = [f"{one.id}  {one.text}{_bound(one)}" for one in rules]
        return "\n".join([*lines, "", "/rules remove ID removes one."])


def rule_view(rule: GivenRule) -> RuleView:
    return RuleView(
        rule.id,
        rule.tool,
        rule.pattern,
        rule_text(rule),
        rule.owner,
        rule.at,
        bound_to_description=bool(rule.mark),
    )


def _bound(rule: RuleView) -> str:
    return ", while its description stays as it is" if rule.bound_to_description else ""
