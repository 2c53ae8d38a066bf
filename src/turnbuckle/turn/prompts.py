"""All that the runtime ever says to the model, in one place. Short, and each says only what is known.

They are user messages marked as notes, appended at the end of a request: what was sent before is never
edited.
"""

import re
from collections import Counter

import msgspec
from msgspec import Struct

from turnbuckle.reply.anchor import anchor_of
from turnbuckle.reply.draft import TAIL, DoubtfulRest, Draft, Reading, absent, told_length
from turnbuckle.reply.splice import letters_of
from turnbuckle.turn.facts import Continue
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart, text_of

MARK = "[Runtime]"
PIECE = "about 8,000 tokens"

LENGTH = (
    "[Runtime] Your reply reached the output limit. Go on exactly where it stopped: no repetition, no "
    "preface. "
    "If you were about to make a long call, make smaller ones."
)
TEXT = (
    "[Runtime] The connection broke and your reply stopped where it stands above. Go on with the very next "
    "character: no repetition, no preface, no apology."
)
ANCHORED = (
    "{why} Go on from there. Begin with its last words, repeated exactly; written as a JSON string they "
    "are:\n{anchor}"
    "\nThen comes the very next character behind them: no other repetition, no preface, no apology.{more}"
)
_BROKE = "[Runtime] The connection broke and your reply stopped where it stands above."
_FULL = "[Runtime] Your reply reached the output limit."
_SMALLER = " If you were about to make a long call, make smaller ones."
_DOCUMENT = " It is one JSON document: do not begin another, and write nothing behind its end."
CALL = (
    "[Runtime] Your call of {tool} was cut on its way. Nothing of it ran. Make it again in smaller calls of "
    f"{PIECE} at the most."
)
CALL_AGAIN = (
    "[Runtime] Your call of {tool} was cut again ({times} times in a row). Nothing of it ran. Split the "
    "work into much "
    "smaller calls, of at most 2,000 tokens each, or reach the goal in another way."
)
GO_ON = "[Runtime] Continue."
SAY_SOMETHING = "[Runtime] Nothing arrived from you. Think again, and either answer or call a tool."
VALID_CALLS = (
    "[Runtime] Your last call could not be read, so nothing ran. Make smaller calls whose arguments are "
    "valid JSON "
    "objects."
)
DRAFT = (
    "[Runtime] Your call of {tool} was cut on its way. Nothing ran yet, but the first {count:,} characters "
    "of its argument `{argument}` are kept as draft `{draft}`.{settled} Written as a JSON string, they "
    "end with:\n"
    "{tail}\n"
    'Call finish_call with draft="{draft}", after = the last 40 or so characters of that text, copied '
    "exactly, "
    "and rest = only what comes behind them. {piece}Or make a new, smaller call of {tool} instead; that "
    "drops the "
    "draft."
)
WHOLE_TEXT = (
    "Write the whole content of {name} as one code block, from the first line to the last, and nothing "
    "else: no words "
    "before it, none behind it."
)
REST_TEXT = (
    "The content of {name} was cut off while you wrote it. So far it ends like "
    "this:\n{fence}\n{shown}{fence}\n"
    "Write the rest of it as one code block and nothing else. The first line of the block is this line "
    "again, exactly, "
    "and behind it comes what is missing:\n{anchor}"
)
DRAFT_PIECES = (
    "The connection keeps breaking: send at most 2,000 characters in rest, with more=true "
    "until the last piece. "
)
DRAFT_MORE = "If much is missing, send it in pieces with more=true. "
DRAFT_CLOSED = (
    "[Runtime] Your call of {tool} was cut on its way, behind its argument `{argument}`, which is kept whole "
    "as draft `{draft}` ({count:,} characters).{settled}{lost} Nothing ran yet. Call finish_call with "
    'draft="{draft}", after = its last 60 or so characters, rest="", and in `also` what is missing. '
    "Written as a JSON string, it ends with:\n{tail}"
)
DOUBT = (
    "Not joined yet: {why}. Your rest is kept beside the draft; do not send it again. Say which of these "
    "is right: "
    'call finish_call with draft="{draft}", after="", rest="" and the letter as reading. Each shows the '
    "end of the "
    "draft and what would come behind it, as JSON strings.\n{readings}\nIf none of them is right, call "
    "finish_call "
    "with another after and rest."
)
CUT_REST = (
    "[Runtime] Your finish_call was cut on its way. The first {count:,} characters of its rest have "
    "arrived, for draft "
    "`{draft}`. "
)
_JOINT = 60
"""Characters that are shown on both sides of a joint."""

HELD = (
    "Of the same reply these calls arrived whole and run together with it, so do not make them again: "
    "{calls}."
)
MOST_NAMED = 20


def note(text: str) -> Message:
    """The runtime's words to the model."""
    return Message("user", (TextPart(text),), note=True)


def text(message: Message) -> str:
    """The words of a note without the mark of who says them."""
    return text_of(message.parts).removeprefix("[Runtime] ")


def beside(notes: tuple[Message, ...], names: tuple[str, ...]) -> tuple[Message, ...]:
    """The notes with a sentence about the calls of the same reply that arrived whole."""
    if not notes or not names:
        return notes
    words = f"{text_of(notes[-1].parts)} {HELD.format(calls=_listed(names))}"
    return (*notes[:-1], note(words))


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def never_started(names: tuple[str, ...]) -> str:
    """What to say at the end of a turn about whole calls that nobody ran."""
    return f"never started: {_listed(names)}" if names else ""


class Joint(Struct, frozen=True):
    """How the reply to some notes belongs to the text before it. `anchor` is what it was asked to repeat
    first, None if nobody asked it to go on. `apart`: the text was whole, and what comes is another one."""

    anchor: str | None = None
    apart: bool = False


def joint_of(notes: tuple[Message, ...]) -> Joint:
    """What these notes asked of a reply. They are facts, so it is the same after a crash."""
    words = "\n".join(text_of(message.parts) for message in notes)
    if anchor := _ANCHOR.search(words):
        return Joint(msgspec.json.decode(anchor[1], type=str))
    if words.startswith((_BROKE, _FULL)):
        return Joint("")
    return Joint(apart=words.startswith(_ABOUT_A_CALL))


_ANCHOR = re.compile(r'written as a JSON string they are:\n("(?:[^"\\]|\\.)*")\n')
_ABOUT_A_CALL = ("[Runtime] Your call of", "[Runtime] Your finish_call")


def continuation(wanted: Continue, shown: str = "", *, document: bool = False) -> tuple[Message, ...]:
    """What to say to have a cut reply go on behind the text that was shown. `document`: it is one JSON
    document."""
    match wanted.kind:
        case "length" | "text":
            anchor = anchor_of(shown)
            is_full = wanted.kind == "length"
            if not anchor:
                return (note(LENGTH if is_full else TEXT),)
            why, more = (_FULL, _SMALLER) if is_full else (_BROKE, "")
            more = _DOCUMENT if document else more
            return (note(ANCHORED.format(why=why, anchor=quoted(anchor), more=more)),)
        case "call":
            form = CALL if wanted.escalation < 2 else CALL_AGAIN
            return (note(form.format(tool=wanted.tool or "a tool", times=wanted.escalation)),)
        case "unreadable":
            return (note(VALID_CALLS),)
        case "paused":
            return ()


def quoted(text: str) -> str:
    """A text as the string that it is in arguments. Marks around it would be taken for a part of it."""
    return msgspec.json.encode(text).decode()


def end_of(draft: Draft) -> str:
    """The end of a draft, as far as the model is told of it."""
    return quoted(draft.text[: told_length(draft)][-TAIL:])


def doubt(draft: Draft, doubtful: DoubtfulRest, why: str) -> str:
    """The question which way a rest belongs to its draft."""
    lines = [
        f"{letter}) {_left_out(draft, reading)}: "
        f"{quoted(draft.text[: reading.kept][-_JOINT:])} and then "
        f"{quoted(doubtful.rest[reading.skip : len(doubtful.rest) - reading.end][:_JOINT])}"
        for letter, reading in zip(letters_of(doubtful), doubtful.readings, strict=True)
    ]
    return DOUBT.format(why=why, draft=draft.id, readings="\n".join(lines))


def _left_out(draft: Draft, reading: Reading) -> str:
    back = len(draft.text) - reading.kept
    parts = [
        f"the last {back:,} characters of the draft" if back else "",
        f"the first {reading.skip:,} characters of your rest" if reading.skip else "",
        f"its last {reading.end:,} characters" if reading.end else "",
    ]
    words = " and ".join(part for part in parts if part)
    return f"without {words}" if words else "your rest as it is"


def finish_draft(draft: Draft, escalation: int, guarded: tuple[str, ...] = ()) -> Message:
    """What to say to have a draft finished. `guarded` arguments are named if they did not arrive. What a cut
    rest means is asked first."""
    if draft.doubtful is not None:
        came = CUT_REST.format(count=len(draft.doubtful.rest), draft=draft.id)
        return note(came + doubt(draft, draft.doubtful, "it can be read in more than one way"))
    missing = [
        *absent(draft, dict.fromkeys(guarded)),
        *([f"{draft.lost}…"] if draft.lost is not None else []),
    ]
    settled = f" Also received: {', '.join(sorted(draft.settled))}." if draft.settled else ""
    form = DRAFT_CLOSED if draft.closed else DRAFT
    return note(
        form.format(
            tool=draft.tool,
            count=len(draft.text),
            argument=draft.argument,
            draft=draft.id,
            settled=settled,
            lost=f" Not received: {', '.join(missing)}." if missing else "",
            tail=end_of(draft),
            piece=DRAFT_PIECES if escalation >= 2 else DRAFT_MORE,
        )
    )


def left_draft(draft: Draft, guarded: tuple[str, ...] = ()) -> Message:
    """What to say, in a later turn, of a draft that was left open when its own turn ended."""
    words = text_of(finish_draft(draft, 1, guarded).parts).removeprefix(MARK)
    return note(
        f"{MARK} That turn ended before this was done.{words} If it is not wanted any more, leave it."
    )


def interrupted(messages: tuple[Message, ...]) -> Message:
    """What to say, in the next turn, of one that was interrupted: `messages` are those of that turn."""
    asked = [place for place, one in enumerate(messages) if one.role == "user" and not one.note]
    parts = [part for one in messages[asked[-1] if asked else 0 :] for part in one.parts]
    failed = {part.call_id: part.failed for part in parts if isinstance(part, ResultPart)}
    called = [part for part in parts if isinstance(part, CallPart)]
    done = [part.name for part in called if not failed.get(part.id, True)]
    not_done = [part.name for part in called if failed.get(part.id, True)]
    ran = f"Calls that were done: {_counted(done)}." if done else "No call was done."
    results = "their results say which"
    broke = f" Stopped, failed or not started: {_counted(not_done)} ({results})." if not_done else ""
    return note(
        f"{MARK} The turn above was interrupted before its end. {ran}{broke} What was done stays done, and "
        "nothing of it goes on. Do what the user says now."
    )


def undone(paths: tuple[str, ...]) -> Message:
    """What to say of files that the user has undone since the last turn."""
    named = ", ".join(dict.fromkeys(paths))
    return note(f"{MARK} The user has undone your changes to {named}: what was there before is there again.")


def _counted(names: list[str]) -> str:
    counts = Counter(names)
    return ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in counts.items())


def go_on(why: str) -> Message:
    """What to say to have a task that was given up carried to its end."""
    ended = f" ({why})" if why else ""
    return note(
        f"{MARK} The turn ended before the task was done{ended}. Look at what is done, and do the rest now."
    )
