"""The grades: each a function of one play. A mark is given, refused with a sentence why, or does not apply.

Nobody gets a mark for what could not be seen. A server that gives up is neither frugal nor wasteful; one that
told an error and showed nothing has lost nothing that anybody saw.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Struct

from turnbuckle.lab.score.facts import Played, SeenCall
from turnbuckle.lab.score.tale import Coverage, told

SLACK_REQUESTS = 2
"""Requests beyond what is needed that are still frugal: a probe, a second try of the same."""
MOST_WASTE = 2.0
"""The answer may be generated twice: a server that shows nothing before the end must start fresh after a
break."""
_REFUSED = re.compile(
    (
        r"error|invalid|malformed|truncat|incomplete|fail|nothing|\bcut\b|not (?:be "
        r")?(?:run|ran|execut|carried|done)"
    ),
    re.IGNORECASE,
)
"""A result that says that nothing was done is not the result of a call that was cut."""
_PART_ENDS = ("length", "max_tokens")


class Mark(Struct, frozen=True):
    """`given` None: it does not apply. `why` says what was wrong."""

    given: bool | None
    why: str = ""


YES = Mark(True)
DOES_NOT_APPLY = Mark(None)
Grade = Callable[[Played], Mark]


def ends(play: Played) -> Mark:
    """The answer ends by itself, in time, and says so."""
    heard = play.heard
    match heard.end:
        case "done" if heard.finish:
            return YES
        case "done":
            return _no("[DONE] came without a reason to stop")
        case "error":
            return YES
        case "closed" if heard.finish:
            return _no(f"finish `{heard.finish}` came, [DONE] did not")
        case "closed":
            return _no("the answer was closed without a last word")
        case "broken":
            return _no("the connection to the client broke off")
        case "flood":
            return _no("the answer did not stop growing")
        case _:
            return _no(f"nothing ended it within {heard.seconds:.0f} s")


def honest(play: Played) -> Mark:
    """What is said about the end fits what came."""
    heard, wanted = play.heard, play.wanted
    if heard.end not in ("done", "error"):
        return DOES_NOT_APPLY
    if heard.end == "error":
        return YES
    if _calls_claimed(play):
        broken = [call for call in heard.calls if _arguments(call) is None]
        if broken:
            return _no(f"half a call of {broken[0].name} was handed over as a whole one")
        return YES if heard.calls else _no("finish `tool_calls`, but there was no call")
    if wanted.calls:
        return YES if heard.finish != "stop" else _no("`stop`, though the call did not arrive")
    reached = _told(play)
    if reached.whole:
        return YES if heard.finish not in _PART_ENDS else _no(f"the whole answer was called `{heard.finish}`")
    if heard.finish in ("stop", ""):
        return _no(f"{_share(reached)} were told as `{heard.finish or 'done'}`")
    return YES


def kept(play: Played) -> Mark:
    """Nothing shown is lost or contradicted, the text has no hole, and what the provider ended is all
    there."""
    heard, reached = play.heard, _told(play)
    if play.wanted.calls or not (reached.reached or heard.end == "done"):
        return DOES_NOT_APPLY
    if reached.missing:
        return _no(f"{_count(reached.missing, 'character')} missing inside the text")
    if heard.end == "done":
        ended = [told(attempt.text, play.wanted.answer).reached for attempt in play.attempts if attempt.ended]
        if reached.reached < max(ended, default=0):
            return _no(f"the provider had told {max(ended)} characters, the client got {reached.reached}")
    return YES


def once(play: Played) -> Mark:
    """Nothing is said or handed over twice."""
    reached, handed = _told(play), [(call.name, call.arguments) for call in play.heard.calls]
    if reached.repeated:
        return _no(f"{_count(reached.repeated, 'character')} told twice")
    if _calls_claimed(play) and len(set(handed)) < len(handed):
        return _no("the same call was handed over twice")
    return YES if reached.reached or handed else DOES_NOT_APPLY


def untouched(play: Played) -> Mark:
    """No call is carried out, or handed over to be, of which only a part arrived."""
    if not play.wanted.cut_call or play.idle:
        return DOES_NOT_APPLY
    if play.traces == "half":
        return _no("a call that was cut was carried out: its trace is in the folder")
    if _calls_claimed(play) and any(_arguments(call) is None for call in play.heard.calls):
        return _no("half a call was handed over to be carried out")
    if play.traces == "none":
        return YES
    # What is whole now may have been half before.
    cut = {call.id for attempt in play.attempts for call in attempt.calls if not _sound(call, attempt.ended)}
    brought = [result for attempt in play.attempts for result in attempt.results if result.call in cut]
    if any(not _REFUSED.search(result.text) for result in brought):
        return _no("the provider was sent a result of a call that was cut")
    seen = play.traces or len(play.attempts) > 1 or not play.wanted.own_tools
    return YES if seen else DOES_NOT_APPLY


def healed(play: Played) -> Mark:
    """The whole answer arrives although the provider broke."""
    if not play.wanted.heals:
        return DOES_NOT_APPLY
    if play.heard.end != "done":
        return _no(f"no whole answer: {_told_end(play)}")
    if play.wanted.calls:
        got = [_arguments(call) for call in play.heard.calls]
        return YES if got == list(play.wanted.calls) else _no("the call did not arrive whole")
    reached = _told(play)
    if not reached.whole:
        return _no(f"only {_share(reached)} arrived")
    unwritten = play.wanted.writes and play.traces in ("none", "half")
    return _no("what the call was to write is not there") if unwritten else YES


def frugal(play: Played) -> Mark:
    """The provider is not asked, and does not generate, much more than one clean answer needs."""
    requests, waste = len(play.attempts), waste_of(play)
    if requests > play.wanted.requests + SLACK_REQUESTS:
        return _no(f"{requests} requests where {play.wanted.requests} would do")
    if waste > MOST_WASTE:
        return _no(f"{waste:.1f} times the characters of one clean answer were generated")
    return YES if play.wanted.heals and healed(play).given else DOES_NOT_APPLY


def comes_back(play: Played) -> Mark:
    """A client that drops and repeats its request under the same key does not have it done twice."""
    if play.again is None or not play.again.offered:
        return DOES_NOT_APPLY
    if play.again.anew > 0:
        return _no(
            f"the repeated request was done again: {_count(play.again.anew, 'more request')} to the provider"
        )
    return YES


GRADES: dict[str, Grade] = {
    "ends": ends,
    "honest": honest,
    "kept": kept,
    "once": once,
    "untouched": untouched,
    "healed": healed,
    "frugal": frugal,
    "comes back": comes_back,
}


def grade(play: Played) -> dict[str, Mark]:
    """All marks of one play. What could not be played has none."""
    if play.idle:
        return dict.fromkeys(GRADES, DOES_NOT_APPLY)
    return {name: judged(play) for name, judged in GRADES.items()}


def waste_of(play: Played) -> float:
    """What the provider generated, as a multiple of what one clean answer needs."""
    generated = sum(attempt.characters for attempt in play.attempts)
    return generated / play.wanted.characters if play.wanted.characters else 0.0


def _no(why: str) -> Mark:
    return Mark(False, why)


def _told(play: Played) -> Coverage:
    return told(play.heard.text, play.wanted.answer)


def _calls_claimed(play: Played) -> bool:
    """Whether the client would carry out the calls that it got."""
    heard = play.heard
    return heard.end == "done" and (
        heard.finish == "tool_calls" or (bool(heard.calls) and heard.finish == "stop")
    )


def _arguments(call: SeenCall) -> object:
    """The arguments as a value; None if they are not a whole JSON object."""
    try:
        found = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _sound(call: SeenCall, ended: bool) -> bool:
    return ended and _arguments(call) is not None


def _share(reached: Coverage) -> str:
    return f"{reached.reached - reached.missing} of {reached.size} characters"


def _told_end(play: Played) -> str:
    heard = play.heard
    return f"the client was told “{heard.error[:80]}”" if heard.end == "error" else ends(play).why


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
