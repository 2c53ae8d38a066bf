"""A history that grows is made legal piece by piece: each message once, not with every request.

Theory of operation. Repair looks no further ahead than to the next turn of the model. So where the model
begins to speak, what stands before it is settled: whatever is said later, the same is made of it. `settle`
finds the last such place and tries it: a turn that was dropped, or joined to what stands before it, is none.
`grown` repairs what stands behind a settled part as if it had repaired all of it; a property test holds it to
that, for every way in which a history can grow.
"""

from itertools import islice

from msgspec import Struct

from turnbuckle.reply.repair import repair
from turnbuckle.reply.repair.history import History, call_ids
from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.messages import ResultPart
from turnbuckle.vocab.quirks import Quirks

_PLACES = 4
"""So many places are tried."""


class ForWhom(Struct, frozen=True):
    """By whose rules a history is made legal. What was settled for one holds for nobody else."""

    rules: HistoryRules
    model: str = ""
    quirks: Quirks = Quirks()
    tools: frozenset[str] = frozenset()


class Settled(Struct, frozen=True):
    """The first messages of a history, what was made of them, and the ids of the calls in that. The next
    message is the model's."""

    history: History = ()
    made: History = ()
    ids: frozenset[str] = frozenset()

    def followed_by(self, history: History, made: History) -> "Settled":
        """The same with more, for a history that begins with this one, and what was made of it. That begins
        with what was made of this one, unless all of it was repaired again."""
        known = self if made[: len(self.made)] == self.made else NOTHING_SETTLED
        new = [name for message in made[len(known.made) :] for name in call_ids(message)]
        return Settled(history, made, known.ids.union(new))


NOTHING_SETTLED = Settled()


def grown(messages: History, whom: ForWhom, before: Settled, *, to_ask: bool) -> History:
    """What `repair` makes of a history that begins with the settled one. A result of a call in that one names
    it as it was before anything was made of it, so then all of it is repaired."""
    if _answers_older_calls(messages, len(before.history), len(before.history)):
        before = NOTHING_SETTLED
    made = before.made
    return _repaired((*made, *messages[len(before.history) :]), before, whom, to_ask=to_ask)


def sealed(sent: Settled, messages: History, whom: ForWhom, *, to_ask: bool) -> History:
    """What was sent of a history stays as it is, and the rest is made legal behind it. What was sent is legal
    already, and may end anywhere."""
    return _repaired((*sent.made, *messages[len(sent.history) :]), sent, whom, to_ask=to_ask)


def settle(messages: History, whom: ForWhom, before: Settled) -> Settled:
    """As much of a history as is settled by now; at least what was `before`."""
    back = range(len(messages) - 1, len(before.history), -1)
    for place in islice((place for place in back if _begins_turn(messages, place)), _PLACES):
        begun = messages[: place + 1]
        made = grown(begun, whom, before, to_ask=False)
        settled = before.followed_by(messages[:place], made[:-1])
        if _begins_turn(made, len(made) - 1) and grown(begun, whom, settled, to_ask=False) == made:
            return settled
    return before


def _repaired(messages: History, before: Settled, whom: ForWhom, *, to_ask: bool) -> History:
    seal = len(before.made)
    return repair(
        messages,
        whom.rules,
        model=whom.model,
        sealed=seal,
        quirks=whom.quirks,
        to_ask=to_ask,
        tools=whom.tools,
        settled=_unseen(messages, seal),
        used=before.ids,
    ).messages


def _unseen(messages: History, seal: int) -> int:
    """How many of the sealed messages no pass needs to see: all before the last turn of the model, but for
    the message in front of it. A result that belongs to a call further back needs all of them."""
    turn = next((place for place in range(seal, 0, -1) if _begins_turn(messages, place)), 0)
    return 0 if not turn or _answers_older_calls(messages, turn, seal) else turn - 1


def _answers_older_calls(messages: History, turn: int, new: int) -> bool:
    """Whether a result from message `new` on belongs to no call from message `turn` on."""
    called: set[str] = set()
    for place in range(turn, len(messages)):
        called.update(call_ids(messages[place]))
        if place < new:
            continue
        for part in messages[place].parts:
            if isinstance(part, ResultPart) and part.call_id not in called:
                return True
    return False


def _begins_turn(messages: History, place: int) -> bool:
    """Whether the model begins to speak with this message, behind a user or results."""
    return (
        0 < place < len(messages)
        and messages[place].role == "assistant"
        and messages[place - 1].role in ("user", "tool")
    )
