"""The time that leases are measured in. It only grows, and it goes on while the machine sleeps: a claim that
nobody renewed for so long has run out, also if the process that held it lived through none of that time."""

import time

# Linux counts suspended time only in BOOTTIME; elsewhere MONOTONIC does.
_SOURCE: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_time() -> float:
    """Seconds since some moment in the past."""
    return time.clock_gettime(_SOURCE)
