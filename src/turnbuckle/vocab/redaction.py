"""Secrets do not leave: not into the environment of a child, not into a result, a log or the journal.

A value that is known to be secret is taken out wherever it shows up, in each of the spellings in which a program may
repeat it. What merely looks like a credential is taken out of messages only: a file that holds such a text must still
be read as it is.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import msgspec

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_HEADER = re.compile(r"auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
_GUARDED = r"[\\\"']*\s*[:=]\s*[\\\"']*"  # what stands between a name and its value, also in JSON inside of JSON
_VALUE = r"[^\s\"'\\,;&<>{}\[\]]"
_NAMED = re.compile(
    # A header that is nothing but a secret, with or without its scheme.
    rf"((?:\b(?:proxy-)?authorization|\bx-(?:goog-)?api-key|\b(?:set-)?cookie){_GUARDED})"
    rf"(?:(?:bearer|basic|token|negotiate)\s+)?{_VALUE}{{6,}}"
    # A name that often has an ordinary word behind it: only what is no word.
    rf"|((?:(?<![A-Za-z0-9])(?:api[_-]?key|access[_-]?key|access[_-]?token|refresh[_-]?token|id[_-]?token|client[_-]?secret|password"
    rf"|passwd|secret[_-]?access[_-]?key|private[_-]?key)|[?&](?:key|token|sig|signature)){_GUARDED})"
    rf"(?={_VALUE}{{0,200}}\d|{_VALUE}{{20}}){_VALUE}{{6,}}",
    re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(
    # One test for the edge of a word in front of all of them: inside of words, which is nearly everywhere, nothing else
    # is tried.
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
REDACTED = "[secret]"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a child process may have."""
    return {name: value for name, value in environment.items() if not _SECRET_NAME.search(name)}


def secrets_in(environment: Mapping[str, str]) -> set[str]:
    """The values that their names call secret."""
    return {value for name, value in environment.items() if _SECRET_NAME.search(name)}


def secrets_in_headers(headers: Mapping[str, str]) -> set[str]:
    """The same for headers. The scheme before a credential is no secret."""
    return {value.rpartition(" ")[2] for name, value in headers.items() if _SECRET_HEADER.search(name)}


def without_credentials(text: str) -> str:
    """A message without whatever looks like a credential."""
    if ":" in text or "=" in text:  # one of them stands between a name and its value
        text = _NAMED.sub(_keep_name, text)
    return _LOOKS_SECRET.sub(REDACTED, text)


class Redactor:
    """Takes known secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {value for value in secrets if len(value) >= _SHORTEST}
        spelt = {spelling for value in known for spelling in _spellings(value)}
        self._longest_first = sorted(spelt, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, self._longest_first))) if spelt else None

    def text(self, text: str) -> str:
        """Without the values that are known to be secret."""
        return text if self._known is None else self._known.sub(REDACTED, text)

    def message(self, text: str) -> str:
        """The same, and without whatever looks like a credential."""
        return without_credentials(self.text(text))

    def sample(self, text: str) -> str:
        """The same for the beginning of a longer text, which may end inside of a secret."""
        text = self.text(text)
        for secret in self._longest_first:
            if secret[:_SHORTEST] not in text[-len(secret) :]:
                continue
            for length in range(min(len(secret) - 1, len(text)), _SHORTEST - 1, -1):
                if text.endswith(secret[:length]):
                    return without_credentials(text[:-length]) + REDACTED
        return without_credentials(text)


def _spellings(value: str) -> set[str]:
    """As it is, inside of JSON (with slashes as some servers write them), and inside of an address."""
    in_json = msgspec.json.encode(value).decode()[1:-1]
    return {value, in_json, in_json.replace("/", "\\/"), quote(value, safe="")}


def _keep_name(found: re.Match[str]) -> str:
    return f"{found[1] or found[2]}{REDACTED}"
