"""What the agent may use, and what of it asks first: for people, in one line for each tool."""

from collections.abc import Iterable, Mapping

from turnbuckle.turn.consent import ConsentRule, Rule, rule_for
from turnbuckle.turn.policy import ToolFacts
from turnbuckle.vocab.tooling import FINISH_CALL, is_internal

_WORDS: dict[Rule, str] = {"allow": "runs unasked", "ask": "asks first", "deny": "is not allowed"}
_PLAIN: dict[Rule, str] = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def tools_text(tools: Mapping[str, ToolFacts], rules: tuple[ConsentRule, ...]) -> str:
    """All tools by name, each with its rule and the patterns that differ from it."""
    named = [name for name in tools if name != FINISH_CALL and not is_internal(name)]
    wide = max(map(len, named), default=0)
    lines = [f"{name:<{wide}}  {_about(name, tools[name], rules)}" for name in named]
    return "\n".join(lines) or "The agent has no tools."


def _about(name: str, facts: ToolFacts, rules: tuple[ConsentRule, ...]) -> str:
    if facts.asks:
        return "is a question to you"
    whole = tuple(rule for rule in rules if not rule.pattern)
    parts = [_WORDS[rule_for(whole, name, {}, "")], *_patterns(name, rules)]
    if facts.widens:
        parts.append(f"{facts.widens}: {_PLAIN[rule_for(whole, facts.widens, {}, '', otherwise='ask')]}")
    return "; ".join(parts)


def _patterns(name: str, rules: Iterable[ConsentRule]) -> list[str]:
    fitting = [rule for rule in rules if rule.pattern and rule.tool in (name, "*")]
    return [f"{rule.pattern}: {_PLAIN[rule.rule]}" for rule in fitting]
