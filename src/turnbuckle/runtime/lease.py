"""A claim that is held for as long as something is under way.

It is renewed several times in the time that it lasts. If that fails, whoever holds it stops acting while
there is still time: before the claim has run out, and so before anybody else can have it. A machine that
slept is another matter: the claim has run out when it wakes, and is renewed if nobody took it meanwhile.
Until then nothing that cannot be undone is done with it.
"""

import asyncio
import logging

from turnbuckle.journal.port import Claim, Journal
from turnbuckle.runtime.ports import Sleep

LEASE = 30.0
RENEWALS = 3
"""How often a claim is renewed in the time that it lasts."""

log = logging.getLogger("turnbuckle.run")


async def hold(journal: Journal, claim: Claim, sleep: Sleep, seconds: float = LEASE) -> None:
    """Renew the claim. Returns when it is lost, or when no renewal came through and there is time for no
    other."""
    failed = 0
    while failed < RENEWALS - 1:
        await sleep(seconds / RENEWALS)
        match await _renewed(journal, claim, sleep, seconds):
            case True:
                failed = 0
            case False:
                return
            case None:
                failed += 1


async def _renewed(journal: Journal, claim: Claim, sleep: Sleep, seconds: float) -> bool | None:
    """None if nobody knows: the journal failed, or did not answer before it was due again."""
    renewing = asyncio.ensure_future(journal.renew(claim, seconds))
    # Of two that hang both end before the claim does.
    waiting = asyncio.ensure_future(sleep(seconds / RENEWALS / 4))
    try:
        await asyncio.wait({renewing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return renewing.result() if renewing.done() else None
    except Exception as error:  # whatever it was, nobody knows whether the claim is still held
        log.warning("the claim of %s could not be renewed: %s", claim.stream, error)
        return None
    finally:
        waiting.cancel()
        renewing.cancel()


async def is_held(journal: Journal, claim: Claim, seconds: float = LEASE) -> bool:
    """Whether the claim is good at this moment; one that has only run out is made good again. Ask it right
    before anything that cannot be undone."""
    return journal.still_mine(claim) or (await journal.renew(claim, seconds) and journal.still_mine(claim))
