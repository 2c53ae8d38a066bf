"""What must hold where a history was made smaller, and a model whose window is small."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from turnbuckle.lab.script import Finish, Say
from turnbuckle.testing.world.model import Brain, Fails, Step
from turnbuckle.testing.world.run_world import Story
from turnbuckle.turn.facts import Compacted, RunEnded, RunStarted, SummaryDropped
from turnbuckle.turn.summary import is_users
from turnbuckle.turn.window import estimate, tokens_of_tools
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message, ResultPart, text_of
from turnbuckle.vocab.request import ModelRequest

_MARKS = ("[Runtime] To save room", "[Runtime] Left out to save room")
_LEAST = 0.05
"""Of what is sent, or of what may be used, a compaction frees at least so much."""
SUMMARY = "Task: as above. Decisions: none. Done: some. Files: none. Open: the rest. Forbidden: none."


def windowed(brain: Brain, window: int, *, wrong_by: float = 1.0, summary: str = SUMMARY) -> Brain:
    """A model that takes no more than so many tokens, and counts `wrong_by` times as many as we do. It writes
    this summary when it is asked for one."""

    def answer(request: ModelRequest, number: int) -> list[Step]:
        taken = int((estimate(request.messages) + tokens_of_tools(request.tools)) * wrong_by)
        if taken > window:
            words = f"prompt is too long: {taken} tokens > {window} maximum"
            return [Fails(Failure("context", words, False, status=400, window=window, taken=taken))]
        usage = Usage(input=taken, output=20)
        if is_for_summary(request):
            return [Say(summary, 60), Finish(usage=usage)]
        return [
            replace(one, usage=usage) if isinstance(one, Finish) else one for one in brain(request, number)
        ]

    return answer


def is_for_summary(request: ModelRequest) -> bool:
    """Whether a request asks for a summary."""
    return not request.tools and text_of(request.messages[0].parts).startswith("You write the notes")


def left_out_of(messages: Sequence[Message]) -> tuple[str, ...]:
    """The beginnings of what stands for something else in a history."""
    texts = [text_of(message.parts) for message in messages]
    texts += [
        text_of(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, ResultPart)
    ]
    return tuple(text for text in texts if any(mark in text for mark in _MARKS))


def _each_frees_something(story: Story) -> Iterator[str]:
    made = [fact for fact in story.facts if isinstance(fact, Compacted)]
    rules = story.policy.compaction
    if made and (rules is None or len(made) > rules.most):
        yield f"the history was made smaller {len(made)} times"
    windows = [route.window for route in story.policy.routes if route.window]
    limit = min(windows, default=0) * rules.threshold if rules is not None and windows else None
    for fact in made:
        least = _LEAST * min(fact.before, limit or fact.before)
        if fact.before - fact.after < int(least):
            yield f"a compaction made {fact.after} tokens of {fact.before}"


def _what_is_not_used_leaves_no_trace(story: Story) -> Iterator[str]:
    """A summary that was dropped is in no request, and its run says so or goes on."""
    dropped = [fact for fact in story.facts if isinstance(fact, SummaryDropped)]
    if dropped and not any(isinstance(fact, Compacted) for fact in story.facts):
        if any(left_out_of(asked.request.messages) for asked in story.asked):
            yield "a summary that was dropped is told to a model"
        compacts = story.driven.options.compact is not None
        if (
            compacts
            and story.outcome.kind == "completed"
            and "nothing to make smaller" not in story.outcome.why
        ):
            yield "nothing was made smaller, and nobody is told"
    if any(fact.before - fact.after >= _LEAST * fact.before for fact in dropped):
        yield "a summary was dropped that would have helped"


def _the_task_stays(story: Story) -> Iterator[str]:
    """What the user wants is in every request, word by word, and is not part of a summary."""
    started = story.facts[0]
    if not isinstance(started, RunStarted):
        return
    task = [message.parts for message in started.messages[-started.fresh :] if is_users(message)]
    for number, asked in enumerate(story.asked):
        if is_for_summary(asked.request):
            continue
        told = [part for message in asked.request.messages if is_users(message) for part in message.parts]
        if any(part not in told for parts in task for part in parts):
            yield f"request {number} does not hold the task any more"


def _nothing_is_lost(story: Story) -> Iterator[str]:
    """The end holds all that was said, whether it was left out of requests or not."""
    ended = story.facts[-1]
    if not isinstance(ended, RunEnded) or ended.added is None:
        return
    telling = story.turn
    if not telling.added == story.driven.added == ended.added:
        yield "what the run added is not what was said"
    if left_out_of(ended.added):
        yield "a line that stands for something else was stored as what was said"
    if telling.tally != story.driven.tally:
        yield "who reads a run counts it otherwise than who drives it"


COMPACTION_RULES = (
    _each_frees_something,
    _what_is_not_used_leaves_no_trace,
    _the_task_stays,
    _nothing_is_lost,
)
