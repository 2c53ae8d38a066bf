"""Where a journal is: a folder, or the address of a database.

`schema` in the query of an address is ours: the tables are in the schema of that name. All other parts are
the database's own, as every client of it reads them.
"""

from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from msgspec import Struct

from turnbuckle.vocab.redaction import REDACTED

SCHEMES = ("postgresql://", "postgres://")
SCHEMA = "turnbuckle"
_PORTS = 1 << 16


class Address(Struct, frozen=True):
    """Of a journal in a database. `shown` has no secret in it."""

    url: str
    schema: str
    shown: str

    @property
    def written_schema(self) -> str:
        """The schema as the database reads names: it takes capitals for small letters unless they are in
        quotes. Others have none, since poolers do not hand quotes on."""
        return self.schema if self.schema == self.schema.lower() else f'"{self.schema}"'


def is_database(place: str) -> bool:
    """Whether a journal's place is a database, and not a folder."""
    return place.startswith(SCHEMES)


def read_address(place: str) -> Address:
    """Raises ValueError, whose words hold no secret."""
    parts = urlsplit(place)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(pairs).get("schema", SCHEMA)
    if not schema or not schema.isascii() or not schema.replace("_", "a").isalnum() or len(schema) > 48:
        raise ValueError("the schema of a database is a word of letters, digits and underscores")
    for host in parts.netloc.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdigit() and int(port) < _PORTS):
            raise ValueError("the port of a database is a number")
    rest = [(name, value) for name, value in pairs if name != "schema"]
    url = urlunsplit(parts._replace(query=_query(rest)))
    return Address(url, schema, shown(place))


def shown(place: str) -> str:
    """A place as it may be printed: the password is left out, wherever it stands."""
    if not is_database(place):
        return place
    parts = urlsplit(place)
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = _query([(key, REDACTED if "password" in key else value) for key, value in pairs])
    netloc = f"{name}{colon and ':' + REDACTED}{at}{hosts}"
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def password_of(place: str) -> str:
    """The password in an address; empty if there is none."""
    if not is_database(place):
        return ""
    parts = urlsplit(place)
    _, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return unquote(password) or dict(parse_qsl(parts.query)).get("password", "")


def _query(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{name}={quote(value, safe='/,:[]')}" for name, value in pairs)
