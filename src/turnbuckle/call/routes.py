"""A route: one way to one model, as data. `resolve` makes one from what a person wrote."""

import difflib
import ipaddress
import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from turnbuckle.call.limits import StallSettings
from turnbuckle.call.presets import PRESETS, Preset
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RouteName
from turnbuckle.vocab.prices import Price
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.redaction import without_secrets_in_url
from turnbuckle.wire.protocol import Protocol
from turnbuckle.wire.registry import PROTOCOLS

Kind = TypeVar("Kind", bound=Struct)
_FROM_ENVIRONMENT = "env:"
_PRIVATE_ENDINGS = (".local", ".localhost", ".internal", ".lan", ".home.arpa")
_OPENAI_ID = 40
_OPENAI_HOSTS = (".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class RouteError(ValueError):
    """A route that was written down wrongly. The message says what to change."""


class Secret:
    """A key that does not show itself in any print, log or message."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(…)" if self._text else "Secret()"


class Route(Struct, frozen=True):
    """One way to one model. `headers` may hold secrets too, so only their names are ever shown."""

    name: RouteName
    protocol: ProtocolName
    base_url: str
    model: str
    api_key: Secret = Secret("")
    quirks: Quirks = Quirks()
    stall: StallSettings = StallSettings()
    max_output_tokens: int | None = None
    most_output_tokens: int | None = None
    """What the output cap may be raised to where that can help. None: it is not raised."""
    effort: str | None = None
    headers: dict[str, str] = {}
    extra: dict[str, Any] = {}
    """Fields of the request body that only this route wants."""
    local: bool = False
    context_window: int | None = None
    price: Price | None = None

    def __repr__(self) -> str:
        shown = (
            f"{self.name!r}, {self.protocol!r}, {self.base_url!r}, {self.model!r}, api_key={self.api_key!r}"
        )
        return f"Route({shown}, headers={sorted(self.headers)})"

    def __rich_repr__(self) -> list[Any]:
        return [repr(self)]

    @property
    def facts(self) -> RouteFacts:
        """What the turn must know of it."""
        cap, most = self.max_output_tokens, self.most_output_tokens
        return RouteFacts(
            self.name,
            self.protocol,
            self.model,
            cap,
            most,
            self.effort,
            self.quirks,
            self.context_window,
            self.price,
        )


class _Written(Struct, frozen=True, forbid_unknown_fields=True):
    """A route as a person writes it. What is left out comes from the preset, or has a default."""

    name: str = ""
    preset: str = ""
    protocol: ProtocolName | None = None
    base_url: str = ""
    api_key: str | None = None
    model: str = ""
    quirks: dict[str, Any] = {}
    stall: dict[str, Any] = {}
    max_output_tokens: int | None = None
    most_output_tokens: int | None = None
    effort: str | None = None
    headers: dict[str, str] = {}
    extra: dict[str, Any] = {}
    local: bool | None = None
    context_window: int | None = None
    price: dict[str, Any] = {}


def resolve(
    config: Mapping[str, Any], environment: Mapping[str, str], stall: StallSettings | None = None
) -> Route:
    """A route from its table in the configuration. `stall` holds for all routes that say nothing else."""
    address = without_secrets_in_url(str(config.get("base_url") or ""))
    label = f"route {config.get('name') or config.get('preset') or address or '(without a name)'}"
    written = _read(config, _Written, label)
    preset = _preset(written, label)
    protocol = written.protocol or preset.protocol
    if protocol is None:
        raise RouteError(f"{label}: protocol is missing; it is one of {', '.join(PROTOCOL_NAMES)}")
    if not written.model:
        raise RouteError(f"{label}: model is missing")
    spoken = PROTOCOLS[protocol]
    base_url = _base_url(written.base_url or preset.base_url, spoken, label)
    _known(written.quirks, tuple(sorted(spoken.quirks)), f"{label}, quirks")
    return Route(
        name=RouteName(written.name or written.preset or written.model),
        protocol=protocol,
        base_url=base_url,
        model=written.model,
        api_key=_api_key(written.api_key, preset.key, environment, label),
        quirks=_merged(_usual_quirks(preset, spoken, base_url), written.quirks, f"{label}, quirks"),
        stall=_merged(stall or StallSettings(), written.stall, f"{label}, stall"),
        max_output_tokens=written.max_output_tokens or preset.cap,
        most_output_tokens=written.most_output_tokens or preset.cap_most,
        effort=written.effort,
        headers=_headers(written.headers, environment, label),
        extra=written.extra,
        local=is_local(base_url) if written.local is None else written.local,
        context_window=written.context_window,
        price=_price(written.price, label) if written.price else None,
    )


def _price(written: dict[str, Any], label: str) -> Price:
    price = _read(written, Price, f"{label}, price")
    given = (price.input, price.output, price.cached, price.cache_written, price.request)
    if min(value for value in given if value is not None) < 0:
        raise RouteError(f"{label}, price: a price is not negative")
    return price


def _usual_quirks(preset: Preset, protocol: Protocol, base_url: str) -> Quirks:
    """Those of the preset, and what is known of the host. Where a preset does not know who answers, only
    OpenAI and Azure are asked for an output cap by its newer name: servers of one's own ignore it, and the
    cap would be lost."""
    openai = _host(base_url).endswith(_OPENAI_HOSTS)
    quirks = preset.quirks
    if openai and "prompt_cache_key" in protocol.quirks:
        quirks = msgspec.structs.replace(quirks, prompt_cache_key=True)
    if "output_cap_field" not in protocol.quirks:
        return quirks
    if openai:
        return msgspec.structs.replace(quirks, longest_call_id=_OPENAI_ID)
    if preset.protocol and not _host(preset.base_url).endswith(_OPENAI_HOSTS):
        return preset.quirks
    return msgspec.structs.replace(preset.quirks, output_cap_field="max_tokens")


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def is_local(url: str) -> bool:
    """Whether an address is on this machine or in a private network, where models may be slow to begin."""
    host = _host(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_ENDINGS)
    return address.is_private or address.is_loopback or address.is_link_local


def _read(config: Mapping[str, Any], kind: type[Kind], label: str) -> Kind:
    _known(config, kind.__struct_fields__, label)
    try:
        return msgspec.convert(dict(config), kind)
    except msgspec.ValidationError as error:
        raise RouteError(f"{label}: {error}") from None


def _known(given: Mapping[str, Any], known: tuple[str, ...], label: str) -> None:
    for key in given:
        if key not in known:
            raise RouteError(f"{label}: {key} is not known{_nearest(key, known)}")


def _nearest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _preset(written: _Written, label: str) -> Preset:
    if not written.preset:
        return Preset()
    if written.preset not in PRESETS:
        raise RouteError(
            f"{label}: there is no preset {written.preset}{_nearest(written.preset, tuple(PRESETS))}"
        )
    return PRESETS[written.preset]


def _base_url(url: str, protocol: Protocol, label: str) -> str:
    if not url:
        raise RouteError(f"{label}: base_url is missing; give it, or a preset ({', '.join(PRESETS)})")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise RouteError(f"{label}: base_url must be like https://host/v1")
    if parts.username or parts.password:
        raise RouteError(f"{label}: base_url holds credentials; put them into api_key or headers")
    # A bare host means the usual place: everybody serves a protocol under the same path.
    path = parts.path.rstrip("/") or protocol.base_path
    return parts._replace(path=path, query="", fragment="").geturl()


def _api_key(written: str | None, usual: str, environment: Mapping[str, str], label: str) -> Secret:
    if written is None:
        return Secret(environment.get(usual, "").strip() if usual else "")
    return Secret(looked_up(written, environment, f"{label}: api_key"))


def _headers(written: dict[str, str], environment: Mapping[str, str], label: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in written.items():
        if not _HEADER_NAME.fullmatch(name):
            raise RouteError(f"{label}: {name!r} is not a header name")
        headers[name.lower()] = looked_up(value, environment, f"{label}: header {name}")
    return headers


def looked_up(written: str, environment: Mapping[str, str], what: str) -> str:
    """A secret as it is, from the environment if it is written as `env:NAME`. Raises RouteError."""
    text = written
    if written.startswith(_FROM_ENVIRONMENT):
        variable = written.removeprefix(_FROM_ENVIRONMENT)
        if not environment.get(variable):
            raise RouteError(f"{what}: the environment has no {variable}")
        text = environment[variable]
    text = text.strip()
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise RouteError(f"{what} holds a line break or another control character")
    return text


def _merged(base: Any, written: dict[str, Any], label: str) -> Any:
    """A struct with some of its fields as a person wrote them."""
    _known(written, base.__struct_fields__, label)
    try:
        return msgspec.convert({**msgspec.structs.asdict(base), **written}, type(base))
    except msgspec.ValidationError as error:
        raise RouteError(f"{label}: {error}") from None
