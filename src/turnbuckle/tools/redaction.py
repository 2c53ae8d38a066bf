"""Secrets do not leave: not into the environment of a child, not into a result, not into a live line.

The values of secret-looking variables are known, so they are taken out wherever they show up. What merely looks like a
credential is taken out of error messages only: a file that holds such a text must still be read as it is.
"""

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_LOOKS_SECRET = re.compile(
    r"\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}"
    r"|\b(?:gh[opsur]|glpat|xox[abprs])[_-][A-Za-z0-9_-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bBearer\s+[A-Za-z0-9._~+/-]{12,}=*"
    r"|(?<=://)[^/\s:@]{1,100}:[^/\s@]{1,200}(?=@)"
)
_SHORTEST = 8  # shorter values would hide ordinary words
REDACTED = "[secret]"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a child process may have."""
    return {name: value for name, value in environment.items() if not _SECRET_NAME.search(name)}


class Redactor:
    """Takes the secrets of one environment out of texts."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
        known = sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """Without the values that are known to be secret."""
        return text if self._known is None else self._known.sub(REDACTED, text)

    def message(self, text: str) -> str:
        """The same, and without whatever looks like a credential."""
        return _LOOKS_SECRET.sub(REDACTED, self.text(text))
