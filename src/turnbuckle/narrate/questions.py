"""What a person is asked, made in one place for every surface: whose task it is, which rule asks, the
command as a command, the change of a file as a diff, and what *always* would write. Nothing is left
out: a yes is for all of it.
"""

from typing import Any, Literal

from msgspec import Struct

from turnbuckle.narrate.told import QuestionAsked
from turnbuckle.turn.consent import rule_text
from turnbuckle.turn.facts import ApprovalAsked
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.file_change import FileChange, counts
from turnbuckle.vocab.messages import Message, title_words


def title_of(messages: tuple[Message, ...]) -> str:
    """The task in one line."""
    for one in messages:
        if one.role == "user" and not one.note:
            return shortened(title_words(one.parts))
    return ""


def asked(run: str, fact: ApprovalAsked, card: int = 0, title: str = "") -> QuestionAsked:
    """A stored question as whoever answers it sees it."""
    command = fact.arguments.get("command")
    return QuestionAsked(
        run,
        fact.approval,
        fact.kind,
        fact.name,
        fact.arguments,
        fact.question,
        fact.expires,
        card,
        title,
        fact.why,
        command if isinstance(command, str) else "",
        fact.changes,
        tuple(rule_text(rule) for rule in fact.always),
    )


_IN_A_DIFF = {
    "write_file": frozenset(("path", "content")),
    "append_file": frozenset(("path", "content")),
    "edit_file": frozenset(("path", "old", "new")),
}
"""What the diff of a built-in tool shows of its arguments."""
LineKind = Literal["about", "command", "file", "added", "removed", "context"]


class DrawnLine(Struct, frozen=True):
    """One line of what a terminal draws, by what it is. Its signs are not escaped yet."""

    text: str
    kind: LineKind = "about"


def question_lines(question: QuestionAsked) -> list[DrawnLine]:
    """All of an approval for those who draw lines, before the question itself."""
    lines = [DrawnLine(f"task: {question.title}")] if question.title else []
    if question.why:
        lines.append(DrawnLine(f"asked because: {question.why}"))
    if question.command:
        first, *others = question.command.split("\n")
        lines.append(DrawnLine(f"  $ {first}", "command"))
        lines += [DrawnLine(f"    {other}", "command") for other in others]
    for change in question.changes:
        lines += change_lines(change)
    if not _diff_is_whole(question.changes):
        lines += _text_lines(question)
    if question.always:
        lines.append(DrawnLine(f"a (always) adds the rule {' and '.join(question.always)}"))
    return lines


def undrawn(tool: str, arguments: dict[str, Any], changes: tuple[FileChange, ...]) -> dict[str, Any]:
    """The arguments that `question_lines` does not show. Those of a built-in file tool are in its diff or, if
    that is not whole, below it."""
    drawn = {"command"} if isinstance(arguments.get("command"), str) else set()
    if _diff_is_whole(changes) or any(change.path for change in changes):
        drawn |= _IN_A_DIFF.get(tool, frozenset())
    return {name: value for name, value in arguments.items() if name not in drawn}


def _diff_is_whole(changes: tuple[FileChange, ...]) -> bool:
    return bool(changes) and all(change.diff and not change.note for change in changes)


def _text_lines(question: QuestionAsked) -> list[DrawnLine]:
    """All of the text that a built-in file tool was given, where its diff is not all of it."""
    shown = _IN_A_DIFF.get(question.tool, frozenset()) - {"path"}
    if not any(change.path for change in question.changes):
        return []
    lines: list[DrawnLine] = []
    for name, text in question.arguments.items():
        if name in shown and isinstance(text, str):
            lines.append(DrawnLine(f"  {name}, all of it:", "file"))
            lines += [DrawnLine(f"    {line}", "context") for line in text.removesuffix("\n").split("\n")]
    return lines


def change_lines(change: FileChange, most: int = 0) -> list[DrawnLine]:
    """A change as a unified diff; its first `most` lines, if that is not 0."""
    lines = [DrawnLine(f"  {change.path} {counts(change)}".rstrip(), "file")] if change.path else []
    diff = change.diff.split("\n") if change.diff else []
    shown = diff[:most] if most else diff
    lines += [DrawnLine(f"  {line}", _kind(line)) for line in shown]
    if len(shown) < len(diff):
        lines.append(DrawnLine(f"  … {len(diff) - len(shown):,} more lines of the diff"))
    return [*lines, DrawnLine(f"  {change.note}")] if change.note else lines


def _kind(line: str) -> LineKind:
    kinds: dict[str, LineKind] = {"+": "added", "-": "removed", "@": "file"}
    return kinds.get(line[:1], "context")
