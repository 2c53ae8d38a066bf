"""How long a provider asks us to wait, in all the places and spellings that they use.

Dates are read against the response's own `Date` header, so no clock is needed here and a wrong clock on
either side does no harm.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|s|m|h|d)")
_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_IN_TEXT = re.compile(
    r"(?:try again|retry|available|reset)\w*\s+(?:in|after)\s+"
    r"((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])\s*)+)",
    re.IGNORECASE,
)
_TEXT_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h)", re.IGNORECASE)
_RESET_NAMES = ("requests", "tokens", "input-tokens", "output-tokens")
# Longer than a day is not a wait, it is a broken header.
_LONGEST = 86400.0


def from_headers(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the headers (names in lower case), the most exact source first."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _sane(milliseconds / 1000)
    value = headers.get("retry-after", "").strip()
    if value:
        seconds = _number(value)
        if seconds is None:
            seconds = duration(value)
        return _sane(_until(value, headers) if seconds is None else seconds)
    return None


def from_limits(headers: Mapping[str, str]) -> float | None:
    """Seconds until the limit that is used up opens again, for a 429 that gives no Retry-After."""
    waits = []
    for prefix in ("x-ratelimit-", "anthropic-ratelimit-"):
        for name in _RESET_NAMES:
            openai_style = prefix == "x-ratelimit-"
            left = headers.get(f"{prefix}remaining-{name}" if openai_style else f"{prefix}{name}-remaining")
            reset = headers.get(f"{prefix}reset-{name}" if openai_style else f"{prefix}{name}-reset")
            if reset and _number(left) == 0:
                wait = duration(reset)
                waits.append(_until(reset, headers) if wait is None else wait)
    known = [wait for wait in waits if wait is not None]
    return _sane(max(known)) if known else None


def from_error(error: Mapping[str, Any], message: str) -> float | None:
    """Seconds to wait by the error object itself: its own keys, Google's RetryInfo, or its sentence."""
    for key, factor in (("retry_after_ms", 0.001), ("retry_after", 1.0), ("retryAfter", 1.0)):
        value = error.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST / factor:
            return _sane(value * factor)
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("retryDelay"), str):
            return _sane(duration(detail["retryDelay"]))
    found = _IN_TEXT.search(message)
    if not found:
        return None
    pieces = _TEXT_PIECE.findall(found.group(1))
    return _sane(
        sum(float(number) * _UNIT["ms" if unit == "milli" else unit.lower()] for number, unit in pieces)
    )


def duration(text: str) -> float | None:
    """Seconds of `1m30s`, `12ms`, `6s`; None if it is not such a text."""
    text = text.strip()
    pieces = _DURATION.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        return None
    return sum(float(number) * _UNIT[unit] for number, unit in pieces)


def _until(text: str, headers: Mapping[str, str]) -> float | None:
    now = _moment(headers.get("date", ""))
    then = _moment(text)
    if now is None or then is None:
        return None
    return max((then - now).total_seconds(), 0.0)


def _moment(text: str) -> datetime | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text.strip())
        except (ValueError, TypeError, OverflowError):
            continue
        if moment.tzinfo is not None:
            return moment
    return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None


def _sane(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 <= seconds <= _LONGEST else None
