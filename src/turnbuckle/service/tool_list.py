"""What the agent may use, and what of it asks first: for people, in one line for each tool.

It is judged as a call is, by the same rules, without arguments: what patterns say stands beside it.
"""

from msgspec.structs import replace

from turnbuckle.turn.approvals import judge
from turnbuckle.turn.consent import ConsentRule, Rule
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.tooling import FINISH_CALL, is_internal

_WORDS: dict[Rule, str] = {"allow": "runs without asking", "ask": "asks first", "deny": "is not allowed"}
_PLAIN: dict[Rule, str] = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def tools_text(policy: Policy) -> str:
    """All tools by name, each with its rule and the patterns that differ from it. The policy is that of the
    runs of whoever wants to know."""
    rules = (*policy.consent, *policy.allowed)
    whole = replace(policy, consent=_whole(policy.consent), allowed=_whole(policy.allowed))
    named = [name for name in policy.tools if name != FINISH_CALL and not is_internal(name)]
    wide = max(map(len, named), default=0)
    lines = [f"{name:<{wide}}  {_about(name, whole, rules)}" for name in named]
    return "\n".join(lines) or "The agent has no tools."


def _whole(rules: tuple[ConsentRule, ...]) -> tuple[ConsentRule, ...]:
    return tuple(rule for rule in rules if not rule.pattern)


def _about(name: str, whole: Policy, rules: tuple[ConsentRule, ...]) -> str:
    facts = whole.tool(name)
    if facts.asks:
        return "is a question to you"
    plain = judge(whole, name, {}).rule
    parts = [_WORDS[plain]]
    parts += [
        f"{rule.pattern}: {_PLAIN[rule.rule]}" for rule in rules if rule.pattern and rule.tool in (name, "*")
    ]
    if facts.widens and (wider := judge(whole, name, {facts.widens: True}).rule) != plain:
        parts.append(f"with {facts.widens}: {_WORDS[wider]}")
    return "; ".join(parts)
