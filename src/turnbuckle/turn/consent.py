"""Whether a call may start, must wait for a person, or may not start at all: rules as data, and one pure
function.

A rule names a tool, and may narrow itself by a pattern for what the call works on: the command of a shell,
the path of a file, the address of a page. The most narrow rule that fits decides, and of equally narrow ones
the strictest.

A pattern can only be trusted to allow what it shows. `git status*` would fit `git status; rm -rf .` too, so a
pattern never allows a command that holds more than one: there the rule of the tool itself decides. Nor does
its last star stand for options (`git log --output=x` writes a file), or for names that the shell fills in:
commands are compared word by word. The other way round, a pattern that asks or denies fits a command if it
fits any program that would be started, and an absolute path if it fits any end of it. That catches the plain
ways round a rule and not the sly ones, since a shell can spell everything in many ways. What must not happen
is denied for the whole tool, and what is harmless is allowed by patterns.

Where a path leads is not known here: whoever walks it judges that again (`tools/confine`).
"""

import posixpath
import re
import shlex
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct

from turnbuckle.turn.shell_words import programs

Rule = Literal["allow", "ask", "deny"]
ToolKind = Literal["command", "network", "write", "other"]
"""What the rule for calls without a rule looks at: a command, an address on the network, a file that is
changed, or anything else."""
Surface = Literal["terminal", "console", "api", "program"]
"""Who asks for a run: `run` and `chat`, the console, a client over HTTP, a program that embeds the agent."""

_STRICTNESS: dict[Rule, int] = {"allow": 0, "ask": 1, "deny": 2}
_EXACT = 1000  # no name is as long
_MORE_THAN_ONE = re.compile(r"[;&|<>`\n\r(){}\\]|\$[^\s'\"]")
"""What can begin another command, take in a file, or put in something that the pattern did not see."""
_FILLED_IN = re.compile(r"[*?\[]")
_BETWEEN = re.compile(r"[;&|<>`\n\r(){}]")
_SITE = re.compile(r"\s*[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*")


class ConsentRule(Struct, frozen=True, omit_defaults=True):
    """One rule. An empty pattern fits every call of the tool. A star in the tool stands for any letters, so
    `*` fits every tool, and `mcp__notes__*` all of one server."""

    tool: str
    rule: Rule
    pattern: str = ""
    mark: str = ""
    """What a tool of somebody else's server said of itself when the rule was given, as a hash."""

    def fits(self, name: str, subject: "Subject") -> bool:
        if self.tool != name and not ("*" in self.tool and fnmatchcase(name, self.tool)):
            return False
        if not self.pattern:
            return True
        pattern = posixpath.normpath(self.pattern) if subject.is_path else self.pattern
        if self.rule == "allow" and subject.is_command and pattern != "*":
            return subject.is_plain and _shows(pattern, subject.text)
        if self.rule == "allow":
            return subject.is_plain and fnmatchcase(subject.text, pattern)
        return any(fnmatchcase(text, pattern) for text in (subject.text, *subject.within))


class Subject(Struct, frozen=True):
    """What a call works on. `within` are the commands in a longer one, or the ends of a path. One that
    `is_plain` does no more than its text shows."""

    text: str
    within: tuple[str, ...] = ()
    is_plain: bool = True
    is_path: bool = False
    is_command: bool = False


def stricter(one: Rule, other: Rule) -> bool:
    """Whether the first rule allows less than the second."""
    return _STRICTNESS[one] > _STRICTNESS[other]


def _shows(pattern: str, command: str) -> bool:
    """Whether a pattern shows all that a plain command does. A star at its end stands for more words, but for
    no option, and for nothing that the shell would fill in."""
    try:
        wanted, words = shlex.split(pattern), shlex.split(command)
    except ValueError:
        return False
    if not wanted or len(words) < len(wanted) or _FILLED_IN.search(command) or "=" in words[0]:
        return False
    if wanted[-1] == "*" and len(words) >= len(wanted) - 1:
        wanted, rest = wanted[:-1], words[len(wanted) - 1 :]
    elif wanted[-1].endswith("*"):
        rest = words[len(wanted) :]
    else:
        return len(words) == len(wanted) and all(map(fnmatchcase, words, wanted))
    return all(map(fnmatchcase, words, wanted)) and not any(word.startswith("-") for word in rest)


def written(approval: dict[str, Rule]) -> tuple[ConsentRule, ...]:
    """The rules as they stand in the settings: `shell = "ask"`, `"shell:git status" = "allow"`."""
    rules = []
    for key, rule in approval.items():
        tool, _, pattern = key.partition(":")
        rules.append(ConsentRule(tool.strip(), rule, pattern.strip()))
    return tuple(rules)


def rule_text(rule: ConsentRule) -> str:
    """A rule as it would stand in the settings."""
    key = f"{rule.tool}:{rule.pattern}" if rule.pattern else rule.tool
    return f'"{key}" = "{rule.rule}"'


def asks_first(surface: Surface, attended: bool) -> bool:
    """Whether runs of this surface ask before what no rule speaks of. They do where a person sits in front of
    it. A program and an API client have nobody there: for them the settings alone speak."""
    return attended and surface in ("terminal", "console")


def unruled(kind: ToolKind, *, ask_first: bool, versioned: bool) -> tuple[Rule, str]:
    """What holds for a call that no rule speaks of, and why. `versioned`: the workspace is in a git work
    tree, where a change can be seen and taken back."""
    match kind:
        case "command" if ask_first:
            return "ask", "commands are asked about first, unless a rule says otherwise"
        case "network" if ask_first:
            return "ask", "the network is asked about first, unless a rule says otherwise"
        case "write" if ask_first and not versioned:
            return "ask", "this folder is not in a git work tree, so changes are asked about first"
        case _:
            return "allow", ""


def rule_for(
    rules: tuple[ConsentRule, ...],
    name: str,
    arguments: dict[str, Any],
    subject: str,
    *,
    is_command: bool = False,
) -> Rule:
    """What the rules say of this call. If none fits, it is allowed."""
    deciding = fitting(rules, name, arguments, subject, is_command=is_command)
    return "allow" if deciding is None else deciding.rule


def fitting(
    rules: tuple[ConsentRule, ...],
    name: str,
    arguments: dict[str, Any],
    subject: str,
    *,
    is_command: bool = False,
) -> ConsentRule | None:
    """The rule that decides about this call."""
    value = arguments.get(subject)
    matched = subject_of(value if isinstance(value, str) else "", subject, is_command=is_command)
    found = [rule for rule in rules if rule.fits(name, matched)]

    def weight(rule: ConsentRule) -> tuple[int, int, int]:
        narrow = len(rule.tool) if "*" in rule.tool else _EXACT
        return (narrow, len(rule.pattern), _STRICTNESS[rule.rule])

    return max(found, key=weight, default=None)


def subject_of(text: str, argument: str, *, is_command: bool = False) -> Subject:
    """The value of the argument that rules look at, in the one form in which they compare it."""
    if is_command:
        text = text.strip()
        parts = [part.strip() for part in _BETWEEN.split(text)]
        started = [" ".join(words) for words in programs(text)]
        return Subject(text, (*parts, *started), _MORE_THAN_ONE.search(text) is None, is_command=True)
    if argument == "path":
        path = posixpath.normpath(text)  # so that `./a` and `b/../a` are the path that a rule names
        steps = path.split("/")
        # Where the workspace begins in an absolute path is not known here.
        ends = tuple("/".join(steps[at:]) for at in range(1, len(steps))) if path.startswith("/") else ()
        return Subject(path, ends, is_path=True)
    if argument == "url":
        return Subject(_SITE.sub(lambda site: site[0].strip().lower(), text, count=1))
    return Subject(text)
