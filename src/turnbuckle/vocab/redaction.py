"""Secrets do not leave: not into the environment of a child, not into a result, a log or the journal.

A value that is known to be secret is taken out wherever it shows up, in each of the spellings in which a
program may repeat it, whatever the case of its letters. That happens before a text is cut, and where a text
comes in pieces, the beginning of a secret at the end of one is held back (`Redaction`). What merely looks
like a credential is taken out of messages only: a file that holds
such a text must still be read as it is.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote, urlsplit

import msgspec

from turnbuckle.vocab import dumps

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_HEADER = re.compile(r"auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
_PLAIN_HEADERS = frozenset(
    "accept anthropic-beta anthropic-version content-type http-referer openai-beta referer "
    "user-agent x-title".split()
)
_LOOKS_RANDOM = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[^\s/]{16,}")
_GUARDED = (
    r"[\\\"']*\s*[:=]\s*[\\\"']*"  # what stands between a name and its value, also in JSON inside of JSON
)
_VALUE = r"[^\s\"'\\,;&<>{}\[\]]"
_NAMED = re.compile(
    # A header that is nothing but a secret, with or without its scheme.
    rf"((?:\b(?:proxy-)?authorization|\bx-(?:goog-)?api-key|\b(?:set-)?cookie){_GUARDED})"
    rf"(?:(?:bearer|basic|token|negotiate)\s+)?{_VALUE}{{6,}}"
    # A name that often has an ordinary word behind it: only what is not a word.
    rf"|((?:(?<![A-Za-z0-9])(?:api[_-]?key|access[_-]?key|access[_-]?token|refresh[_-]?token|id[_-]?token|client[_-]?secret|password"
    rf"|passwd|secret[_-]?access[_-]?key|private[_-]?key)|[?&](?:key|token|sig|signature)){_GUARDED})"
    rf"(?={_VALUE}{{0,200}}\d|{_VALUE}{{20}}){_VALUE}{{6,}}",
    re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(
    # One test for the edge of a word in front of all of them: inside of words, which is nearly everywhere,
    # nothing else is tried.
    r"\b(?:"
    r"(?:sk|rk|pk|tb)-[A-Za-z0-9_-]{16,}"
    r"|(?:gh[opsur]|glpat|xox[abprs]|github_pat|hf|gsk|xai)[_-][A-Za-z0-9_-]{16,}"
    r"|A(?:KIA|SIA)[0-9A-Z]{16}\b"
    r"|AIza[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    r"|[Bb]earer\s+(?:(?=[A-Za-z._~+/-]{0,200}\d)[A-Za-z0-9._~+/-]{12,}|[A-Za-z0-9._~+/-]{20,})=*"
    r")|(?<=://)[^/\s:@]{1,100}:[^/\s@]{1,200}(?=@)"
)
_SHORTEST = 8  # shorter values would hide ordinary words
_SHORTEST_LINE = 16  # of a secret of many lines, such as a private key
_ENCODING = "surrogatepass"
_DUMPED = 14  # a dump has at most so many characters for each byte
REDACTED = "[secret]"
_MARK = REDACTED.encode()


def without_secrets(
    environment: Mapping[str, str], variables: Iterable[str] = (), values: Iterable[str] = ()
) -> dict[str, str]:
    """The variables that a child process may have: none that its name calls secret, none of `variables`, and
    none that holds one of `values`."""
    hidden, known = set(variables), [value for value in values if len(value) >= _SHORTEST]
    return {
        name: value
        for name, value in environment.items()
        if not _SECRET_NAME.search(name)
        and name not in hidden
        and not any(secret in value for secret in known)
    }


def secrets_in(environment: Mapping[str, str]) -> set[str]:
    """The values that their names call secret."""
    return {value for name, value in environment.items() if _SECRET_NAME.search(name)}


def secrets_in_headers(headers: Mapping[str, str]) -> set[str]:
    """The same for headers, and values that look like nothing else, under a name that nobody knows. The
    scheme before a credential is not a secret."""
    return {
        value.rpartition(" ")[2]
        for name, value in headers.items()
        if _SECRET_HEADER.search(name)
        or (name.lower() not in _PLAIN_HEADERS and _LOOKS_RANDOM.fullmatch(value))
    }


def secrets_in_url(url: str) -> set[str]:
    """Who is named in front of the host, with the password, and the values of the query."""
    try:
        parts = urlsplit(url)
        found = {parts.password or "", "" if parts.password else parts.username or ""}
    except ValueError:
        return set()
    found |= {pair.partition("=")[2] for pair in parts.query.split("&")}
    return {spelled for value in found if value for spelled in (value, unquote(value))}


def without_secrets_in_url(url: str) -> str:
    """An address to show: without who is named in it, the values of its query, and what stands behind a #."""
    head, mark, rest = url.partition("#")[0].partition("://")
    place, question, query = rest.partition("?")
    host, slash, path = place.partition("/")
    names = "&".join(f"{pair.partition('=')[0]}={REDACTED}" for pair in query.split("&")) if query else ""
    shown = f"{REDACTED}@{host.rpartition('@')[2]}" if "@" in host else host
    return f"{head}{mark}{shown}{slash}{path}{question}{names}"


def is_secret_name(name: str) -> bool:
    """Whether a name of a setting or a field calls its value secret."""
    return bool(_SECRET_NAME.search(name) or _SECRET_HEADER.search(name))


def without_credentials(text: str) -> str:
    """A message without whatever looks like a credential."""
    if ":" in text or "=" in text:  # one of them stands between a name and its value
        text = _NAMED.sub(_keep_name, text)
    return _LOOKS_SECRET.sub(REDACTED, text)


class Redactor:
    """Takes known secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {value for value in secrets if len(value) >= _SHORTEST}
        known |= {line for value in known for line in value.splitlines() if len(line) >= _SHORTEST_LINE}
        spelled = {
            spelling.encode("utf-8", _ENCODING).lower() for value in known for spelling in _spellings(value)
        }
        self._longest_first = sorted(spelled, key=len, reverse=True)
        self._by_first: dict[int, list[bytes]] = {}
        for secret in self._longest_first:
            self._by_first.setdefault(secret[0], []).append(secret)
        self._starts = {secret[:_SHORTEST] for secret in spelled}
        self.longest = len(self._longest_first[0]) if spelled else 0
        """Bytes of the longest spelling."""

    def text(self, text: str) -> str:
        """Without the values that are known to be secret."""
        if len(text) < _SHORTEST or not self._longest_first:
            return text
        data = text.encode("utf-8", _ENCODING)
        spans = self.spans(data.lower())
        return _without(data, spans).decode("utf-8", _ENCODING) if spans else text

    def message(self, text: str) -> str:
        """The same, and without whatever looks like a credential."""
        return without_credentials(self.text(text))

    def sample(self, text: str, *, cut: bool = False) -> str:
        """The same for the beginning of a longer text, which may end inside of a secret. If it was `cut` for
        certain, not even the first letters of one are shown."""
        data = self.text(text).encode("utf-8", _ENCODING)
        begun = self.begun_in(data) if cut else self.shown_of(data)
        shown = without_credentials(data[: len(data) - begun].decode("utf-8", _ENCODING))
        return shown + REDACTED if begun >= _SHORTEST else shown

    def part(self, data: bytes, start: int, end: int) -> bytes:
        """A part of these bytes. A secret that lies partly outside of it is taken out all the same."""
        spans = [(max(left, start), min(right, end)) for left, right in self.spans(data.lower())]
        inside = [(left - start, right - start) for left, right in spans if left < right]
        return _without(data[start:end], inside)

    def begun_in(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret, also of one that is wrapped."""
        if self.longest < 2:
            return 0
        tail = data[-2 * self.longest :].lower()
        rows = data[-_DUMPED * self.longest :].lower()
        plain = max(self._begun(tail), dumps.begun(rows, self._begun), dumps.open_row(rows))
        if b"\n" not in tail:
            return plain
        kept = _not_breaks(tail)
        wrapped = self._begun(bytes(tail[at] for at in kept))
        return max(plain, len(tail) - kept[len(kept) - wrapped]) if wrapped else plain

    def shown_of(self, data: bytes) -> int:
        """How many bytes at the end of a whole text show so much of a secret that they must be hidden."""

        def enough(lower: bytes) -> int:
            # Nearly every text has not even the least of a secret that counts, which is quickly said.
            if not any(start in lower for start in self._starts):
                return 0
            count = self._begun(lower)
            return count if count >= _SHORTEST else 0

        lower = data.lower()
        if b"\n" not in lower and b"\r" not in lower:
            return max(enough(lower), dumps.begun(lower, enough))
        kept = _not_breaks(lower)
        wrapped = enough(bytes(lower[at] for at in kept))
        in_lines = len(lower) - kept[len(kept) - wrapped] if wrapped else 0
        return max(enough(lower), in_lines, dumps.begun(lower, enough))

    def _begun(self, lower: bytes) -> int:
        tail = lower[-self.longest + 1 :]
        for at, first in enumerate(tail):
            rest = tail[at:]
            if any(secret.startswith(rest) for secret in self._by_first.get(first, ())):
                return len(rest)
        return 0

    def spans(self, lower: bytes) -> list[tuple[int, int]]:
        """Where secrets are, in order and without overlaps. `base64` and `xxd -p` break their lines, so what
        goes on behind a line's end is found as well, and so are the rows of a dump that stand for one."""
        if not self._longest_first:
            return []
        found = self._found(lower)
        if b"\n" in lower:
            wrapped = self._found(lower.translate(None, b"\r\n"))
            if len(wrapped) > len(found):
                kept = _not_breaks(lower)
                found = [(kept[left], kept[right - 1] + 1) for left, right in wrapped]
        merged: list[tuple[int, int]] = []
        for left, right in sorted([*found, *dumps.spans(lower, self._found)]):
            if merged and left < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(right, merged[-1][1]))
            else:
                merged.append((left, right))
        return merged

    def _found(self, lower: bytes) -> list[tuple[int, int]]:
        found = []
        for secret in self._longest_first:
            at = lower.find(secret)
            while at >= 0:
                found.append((at, at + len(secret)))
                at = lower.find(secret, at + len(secret))
        return found


@lru_cache(64)
def redactor_of(secrets: frozenset[str]) -> Redactor:
    """One redactor for each set of secrets: making one costs more than using it."""
    return Redactor(secrets)


class Redaction:
    """Redacts a text that comes in pieces. What may be the beginning of a secret waits for what follows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waiting = b""

    def add(self, text: str) -> str:
        """What can be shown by now."""
        if not self._redactor.longest:
            return text
        data = self._waiting + text.encode("utf-8", _ENCODING)
        spans = self._redactor.spans(data.lower())
        cut = len(data) - self._redactor.begun_in(data)
        for left, right in reversed(spans):
            if left < cut < right:  # a secret that may be the beginning of a longer one
                cut = left
        self._waiting = data[cut:]
        return _without(data[:cut], [span for span in spans if span[1] <= cut]).decode("utf-8", _ENCODING)

    def close(self) -> str:
        """What waited; nothing more comes, so it is the beginning of no secret, or hidden as one."""
        left, self._waiting = self._waiting, b""
        clean = _without(left, self._redactor.spans(left.lower()))
        hidden = self._redactor.shown_of(left) if clean == left else 0
        if hidden:
            clean = left[:-hidden] + _MARK
        return clean.decode("utf-8", _ENCODING)


def _not_breaks(data: bytes) -> list[int]:
    """Where everything stands but the ends of lines."""
    return [at for at, byte in enumerate(data) if byte not in b"\r\n"]


def _without(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    pieces, at = [], 0
    for left, right in spans:
        pieces += [data[at:left], _MARK]
        at = right
    return b"".join((*pieces, data[at:]))


def _spellings(value: str) -> set[str]:
    """As it is, inside of JSON (with slashes as some servers write them), inside of an address, in base64
    wherever it begins, and in hex."""
    in_json = msgspec.json.encode(value).decode()[1:-1]
    raw = value.encode("utf-8", _ENCODING)
    found = {value, in_json, in_json.replace("/", "\\/"), quote(value, safe=""), quote_plus(value), raw.hex()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        # The first and the last characters hold bits of what stands beside it, so they are not known.
        known = whole[(0, 2, 3)[before] : len(whole) - bool((before + len(raw)) % 3)]
        found |= {known, known.translate(_URL_SAFE)}
    return {spelling for spelling in found if len(spelling) >= _SHORTEST}


_URL_SAFE = str.maketrans("+/", "-_")


def _keep_name(found: re.Match[str]) -> str:
    return f"{found[1] or found[2]}{REDACTED}"
