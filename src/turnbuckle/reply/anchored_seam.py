"""Joining a continuation to shown text when the model was asked to repeat the last words first.

What was shown cannot be unshown, and nothing may be lost. What comes is one of these:

- `anchored`: it begins with the anchor, perhaps behind a preface, inside a code fence or with other white
  space. That proves the place; the anchor and what stands before it are taken out.
- `restarted`: it says everything from the top again. That is taken out if it is long, or if the two texts
  would be glued to a word that nobody wrote, or if it is the one object that a caller wants: no second one
  belongs into it.
- `repeated`: it says the last words again, and the text itself could not: both sides would be glued to a word
  that nobody wrote, or they begin where no row, item or sentence does.
- `new`: it begins like another answer, a refusal say, in the middle of a sentence; or from the top, and then
  in other words. It is shown behind a paragraph break, with a notice.
- `apart`: the shown text was whole, and a call behind it was cut: what comes is another sentence, behind a
  break.
- `clean`: anything else goes straight on. It is taken exactly as it is: a text may say the same again, and a
  doubled word can be seen while a lost one cannot. If it begins with what ends the shown text, a notice says
  so.

The head of a continuation is held back while it could still become one of them, at most `_HEAD` characters
(more behind a long anchor), but for a restart, which is compared by index and not kept. From then on every
delta passes through.
"""

import re
from collections.abc import Iterator

from turnbuckle.reply.anchor import MOST
from turnbuckle.reply.overlap import WINDOW, has_short_period, is_habit, overlaps
from turnbuckle.reply.seam import How, TopMatch, paragraph_break
from turnbuckle.reply.wrapping import may_become_wrapping, wrapping

_HEAD = 400
_GLUED = 3
_LONG = 200  # a restart of so many characters is not a row that is said twice
_RESTART_LEAST = 40
_PROSE = 12
_SURE = 12  # characters of an anchor that may stand behind something else
_OPENINGS = (
    *(
        "I'm sorry",
        "I\u2019m sorry",
        "I am sorry",
        "Sorry,",
        "I apologize",
        "I cannot",
        "I can't",
        "I can\u2019t",
    ),
    *("I'm unable", "I\u2019m unable", "I am unable", "As an AI", "As a language model", "Unfortunately, I"),
    *(
        "Sure,",
        "Sure!",
        "Certainly",
        "Of course",
        "Absolutely!",
        "Hello!",
        "Hi!",
        "Here is",
        "Here's",
        "Here\u2019s",
    ),
    *(
        "It seems",
        "It looks like",
        "How can I",
        "I understand",
        "Thank you",
        "[Runtime]",
        "# ",
        "## ",
        "### ",
    ),
)
_PARTS = re.compile(r"[\n.!?;|]+")
_PART = 6
_SEPARATORS = ",;|\n\t"
_CLOSING = re.compile(r"\n?`{0,3}[ \t\n]*\Z")
NOTICE_NEW = "The model did not continue where the text broke off; what it wrote instead follows a break"
NOTICE_DOUBT = "The text continues after a break that could not be checked: some words may appear twice"
NOTICE_CALL = "The text broke off and the model went on with a call: its last sentence is not finished"
NOTICE_PREFACE = "Words of the model about going on were left out"


class AnchoredSeam:
    """`feed` deltas, get what is new and may be shown now; `close` once. `how` tells what was found, `notice`
    what the user should know of it."""

    def __init__(
        self,
        shown: str,
        anchor: str,
        *,
        apart: bool = False,
        document: bool = False,
        from_top: bool = False,
    ) -> None:
        """`document`: all of it is to be one JSON document. `from_top`: the question was put again, and this
        is the answer from its beginning on."""
        self.how: How = "held"
        self.dropped = 0
        self.notice = ""
        self._shown = shown
        self._anchor = anchor if shown.endswith(anchor) else ""
        self._apart = apart
        self._from_top = from_top
        self._most = _HEAD + max(len(self._anchor) - MOST, 0)  # characters that are held at most
        self._object = document and shown.lstrip().startswith("{")
        self._top = TopMatch(shown)
        self._last = shown.rpartition("\n\n")[2] or shown  # the last paragraph
        self._head = ""  # what is held; no longer kept once it can only be the top
        self._count = 0
        self._watched: str | None = (
            None  # the beginning of what goes straight on, until it is known to be no repetition
        )
        self._fenced = False
        self._tail = ""  # what may be the end of a code fence around it all

    @property
    def holding(self) -> int:
        """How many characters are held back now."""
        return self._count if self.how == "held" else len(self._tail)

    @property
    def is_behind_all(self) -> bool:
        """Whether the continuation has said all of the last words again: it stands where the text broke
        off."""
        if self.how == "restarted":
            return self.dropped >= len(self._shown)
        return self.how == "repeated" or (self.how == "anchored" and self.dropped >= len(self._anchor))

    def feed(self, delta: str) -> str:
        """What may be shown now."""
        if self.how != "held":
            if self._watched is not None:
                self._watch(delta, final=False)
            return self._unfenced(delta)
        before, self._count = self._count, self._count + len(delta)
        self._top.take_many(delta, 0)
        if self._top.open and self._count > self._most:
            self._head = ""  # it is the top of the shown text, so far
            return ""
        self._head = (self._shown[:before] if before > len(self._head) else self._head) + delta
        decided = self._decide(final=len(self._head) > self._most)
        return "" if decided is None else self._unfenced(decided)

    def close(self, cut: bool = False) -> str:
        """What is still held. If the continuation was cut as well, a held repeat brought nothing new."""
        if self._watched is not None:
            self._watch("", final=True)
        if self.how != "held":
            rest, self._tail = self._tail, ""
            return "" if rest.strip("\n \t") == "```" else rest
        if self._count > len(self._head):
            self._head = self._shown[: self._count]
        if cut and self._may_become_anchor(self._head):
            return self._settle("anchored", self._count)
        if self._from_top and self._top.open:
            return self._settle("restarted", self._count)
        if cut and self._top.open and (self._object or (self._count >= 12 and not self._top.is_periodic())):
            return self._settle("restarted", self._count)
        given_out = self._decide(final=True) or ""
        if self._watched is not None:
            self._watch("", final=True)
        return given_out

    def call_began(self) -> None:
        """A call comes, and not a word before it."""
        if self.how == "held" and not self._count and not self._apart and self._is_mid_sentence():
            self.notice = NOTICE_CALL

    # What it is

    def _decide(self, *, final: bool) -> str | None:
        """What to give out; None while it is open."""
        head, whole = self._head, len(self._shown)
        if self._from_top:
            return self._decide_from_top()
        if (count := self._anchored(head)) is not None:
            self._watched = head[count - len(self._anchor) :]
            return self._settle("anchored", count)
        if not final and self._may_become_anchor(head):
            return None
        known = whole >= _LONG or self._is_glued(whole) or self._is_prose_without_a_gap()
        if self._top.matched == whole and (known or self._apart or self._object):
            return self._settle("restarted", whole)
        if not final and self._top.open:
            return None
        if self._apart and head.startswith(self._last):
            return self._settle("repeated", len(self._last))
        if self._apart and not final and self._last.startswith(head):
            return None
        repeated = self._repeated(head, final=final)
        if repeated is None:
            return None
        if repeated:
            self._watched = head
            return self._settle("repeated", repeated)
        if self._is_other_version():
            return self._as_new("new")
        if self._apart:
            return self._as_new("apart")
        if (
            not final
            and self._is_mid_sentence()
            and (self._may_become_new(head) or may_become_wrapping(head))
        ):
            return None
        found = wrapping(self._shown, head) if self._is_mid_sentence() else None
        if found is not None and found.what == "words about itself":
            self.notice = NOTICE_PREFACE
            return self._settle("clean", found.skip)
        if self._is_new(head):
            return self._as_new("new")
        self._watched = head
        return self._settle("clean", 0)

    def _decide_from_top(self) -> str | None:
        if self._top.matched == len(self._shown):
            return self._settle("restarted", len(self._shown))
        return None if self._top.open else self._as_new("new")

    def _watch(self, delta: str, *, final: bool) -> None:
        """Whether what goes on may say the end of the shown text again. It was shown by then, so it is only
        told."""
        assert self._watched is not None
        self._watched += delta[:WINDOW]
        if len(self._watched) < WINDOW and not final:
            return
        head, self._watched = self._watched, None
        repeats = overlaps(self._shown[-WINDOW:], head)
        is_the_top = len(head) >= _RESTART_LEAST and self._shown.startswith(head[:_LONG])
        if self.how == "anchored":
            is_doubled = is_the_top or any(count != len(self._anchor) for count in repeats if count >= _GLUED)
        elif self.how == "repeated":
            is_doubled = is_the_top or any(count != self.dropped for count in repeats)
        else:
            said_again = self._anchor and self._anchor.strip() in head[: self._most]
            is_doubled = bool(said_again or repeats or wrapping(self._shown, head) is not None)
        if is_doubled:
            self.notice = NOTICE_DOUBT

    def _anchored(self, head: str) -> int | None:
        """How much of the head is there already: the anchor, and what was put before it. Something before it
        that stands before it in the shown text, too, may be the text saying the same again, and proves
        nothing."""
        anchor, shown = self._anchor, self._shown
        if not anchor:
            return None
        if head.startswith(anchor):
            return len(anchor)
        if len(anchor) < _SURE:
            return None
        found = wrapping(shown, head)
        skip = found.skip if found is not None else 0
        for start in sorted({_blank(head, 0), skip, _blank(head, skip)}):
            end = start + len(anchor)
            if start and head.startswith(anchor, start) and not shown.endswith(head[:end]):
                self._fenced = found is not None and found.what == "a code fence" and start >= skip
                return end
        return None

    def _may_become_anchor(self, head: str) -> bool:
        anchor = self._anchor
        if not anchor:
            return False
        if anchor.startswith(head) or may_become_wrapping(head):
            return True
        found = wrapping(self._shown, head)
        if found is not None and may_become_wrapping(head[found.skip :]):
            return True
        starts = {_blank(head, 0), *((found.skip, _blank(head, found.skip)) if found is not None else ())}
        return any(start <= len(head) and anchor.startswith(head[start:]) for start in starts)

    def _repeated(self, head: str, *, final: bool) -> int | None:
        """How many characters say the last words again for sure; 0 if none do, None while that is open."""
        shown, ends = self._shown, self._shown[-WINDOW:]
        if (
            not final
            and self._may_be_repeat(head)
            and any(
                len(head) < len(ends) - at and self._may_begin(len(ends) - at) for at in _places(ends, head)
            )
        ):
            return None
        found = [count for count in overlaps(ends, head[: len(ends)]) if count >= _GLUED]
        if len(found) != 1:
            return 0  # of several readings none is sure
        (count,) = found
        is_sure = count >= _SURE and self._may_begin(count) and not is_habit(shown, shown[-count:])
        is_sure = is_sure and "\n" not in shown[-count:] and not _says_things_twice(ends)
        return count if is_sure or self._is_glued(count) else 0

    def _may_be_repeat(self, head: str) -> bool:
        return bool(head) and head[0] not in _SEPARATORS

    def _may_begin(self, count: int) -> bool:
        """Whether the last `count` characters, said again, could not be a text that says the same twice. What
        it says twice is a row, an item, a sentence: before both of them stands the same kind of character."""
        before, last, first = self._shown[-count - 1 : -count], self._shown[-1], self._shown[-count]
        if first in _SEPARATORS or before == last:
            return False
        return before.isalnum() != last.isalnum() or (last.isalnum() and first.isalnum())

    def _is_glued(self, length: int) -> bool:
        """Whether saying the last `length` characters again makes a word that nobody wrote."""
        passage = self._shown[-length:]
        if "\n" in passage and length < len(self._shown):
            return False  # a row, perhaps
        before = self._shown[-length - 1 : -length]
        if len(passage) < _GLUED or has_short_period(passage[-WINDOW:]) or before.isalnum() or before == "_":
            return False
        return passage[0].isalpha() and passage[-1].isalpha()

    def _is_prose_without_a_gap(self) -> bool:
        """Whether the shown text, said again right behind itself, would begin a sentence without a space
        before it."""
        shown = self._shown
        return len(shown) >= _PROSE and " " in shown and shown[-1] in ".!?" and shown[0].isupper()

    def _is_other_version(self) -> bool:
        whole, matched = len(self._shown), self._top.matched
        return max(_RESTART_LEAST, min(_LONG, whole // 2)) <= matched < whole and not self._top.is_periodic()

    def _is_mid_sentence(self) -> bool:
        ends = self._shown.rstrip(" ")[-1:]
        return ends.isalnum() or ends in (",", "-", "\u2013")

    def _may_become_new(self, head: str) -> bool:
        return self._is_mid_sentence() and any(one.startswith(head) and one != head for one in _OPENINGS)

    def _is_new(self, head: str) -> bool:
        return self._is_mid_sentence() and head.startswith(_OPENINGS)

    # What is given out

    def _as_new(self, how: How) -> str:
        if how == "new":
            self.notice = NOTICE_NEW
        return "".join((paragraph_break(self._shown), self._settle(how, 0).lstrip("\n")))

    def _settle(self, how: How, count: int) -> str:
        held, self._head = self._head, ""
        self.how, self.dropped = how, count
        return held[count:]

    def _unfenced(self, text: str) -> str:
        """Behind an opening fence that was left out, hold back what may be its end."""
        if not self._fenced:
            return text
        text = self._tail + text
        at = _CLOSING.search(text)
        start = len(text) if at is None else at.start()
        self._tail = text[start:]
        return text[:start]


def _blank(head: str, start: int) -> int:
    """Where the text begins behind quotes and white space."""
    return len(head) - len(head[start:].lstrip("\n \t\"'\u201c`"))


def _says_things_twice(text: str) -> bool:
    """Whether any line or sentence of some length stands there more than once."""
    parts = [part for part in map(str.strip, _PARTS.split(text)) if len(part) >= _PART]
    return len(set(parts)) < len(parts)


def _places(text: str, head: str) -> Iterator[int]:
    """Where `head` stands in `text`."""
    at = text.find(head)
    while at >= 0:
        yield at
        at = text.find(head, at + 1)
