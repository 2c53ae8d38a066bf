"""How many connections there is room for: each needs a descriptor, and so do the runs behind them."""

import logging
import resource

RESERVED = 256
"""For the journal, tools, processes and logs, however many clients come."""
EACH = 2
"""A client's own, and that of the provider which answers it."""

log = logging.getLogger("turnbuckle.server")


def room_for(wanted: int) -> int:
    """Raise this process's limit of descriptors as far as it needs and may, and say how many connections then
    fit, at most as many as are wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (_HUGE if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard))
    raised = max(soft, min(hard, wanted * EACH + RESERVED))
    if raised > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    fits = max(1, (raised - RESERVED) // EACH)
    if fits < wanted:
        log.warning(
            "only %d connections are possible, not %d (server.max_connections): %d files may be open",
            fits,
            wanted,
            raised,
        )
    return min(fits, wanted)


_HUGE = 1 << 30
