"""Which models there are: `agent`, which has the server's own tools, the same on a route of one's choice
(`agent/ROUTE`), and one for each route, which is a pure relay.

A client may also name a route by the model behind it, as far as that is only one. Any other name is an error
that lists the names that work: to answer with another model than the one asked for would be a lie.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import InvalidValue, ModelUnknown
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.ids import ProtocolName, RouteName
from turnbuckle.vocab.quirks import Quirks

AGENT = "agent"
ON_ROUTE = f"{AGENT}/"
_SHOWN = 12


def known_route(policy: Policy, name: str) -> RouteName:
    """A route by its name. Raises InvalidValue."""
    names = [route.name for route in policy.routes]
    if name not in names:
        listed = ", ".join(names[:_SHOWN])
        raise InvalidValue(f"there is no route {name[:200]!r}; there are {listed}", "route")
    return RouteName(name)


class ModelChoice(Struct, frozen=True):
    """What a model's name stands for. An empty route is the usual one."""

    name: str
    route: RouteName = RouteName("")
    own_tools: bool = False
    protocol: ProtocolName | None = None
    """Of the route that is asked first."""
    quirks: Quirks = Quirks()
    """Of its host."""


class Catalog:
    """All models. `routes` are names of routes with the model behind each and its protocol; `quirks` are
    those of their hosts."""

    def __init__(
        self,
        routes: Sequence[tuple[RouteName, str, ProtocolName | None]],
        quirks: Mapping[RouteName, Quirks] = MappingProxyType({}),
    ) -> None:
        self._on_route = {
            ON_ROUTE + name: ModelChoice(ON_ROUTE + name, name, True, protocol, quirks.get(name, Quirks()))
            for name, _, protocol in routes
        }
        usual = next(iter(self._on_route.values()), ModelChoice(AGENT, own_tools=True))
        self._known = {AGENT: replace(usual, name=AGENT, route=RouteName(""))}
        if len(routes) > 1:  # else there is nothing to choose
            self._known |= self._on_route
        for name, _, _ in routes:
            if name != AGENT:
                self._known[name] = replace(self._on_route[ON_ROUTE + name], name=name, own_tools=False)
        models = [model for _, model, _ in routes]
        self._models: dict[str, str] = {name: model for name, model, _ in reversed(routes)}
        self._models |= {ON_ROUTE + name: model for name, model in self._models.items()}
        self._models[AGENT] = models[0] if models else ""  # the agent begins with the first route
        self._behind = {model: name for name, model, _ in routes if model and models.count(model) == 1}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    @property
    def agents(self) -> tuple[str, ...]:
        """Those with the server's own tools: what a chat offers."""
        return tuple(name for name, choice in self._known.items() if choice.own_tools)

    @property
    def relays(self) -> tuple[str, ...]:
        return tuple(name for name, choice in self._known.items() if not choice.own_tools)

    def model_behind(self, name: str) -> str:
        """The provider's model that answers under a name of the list."""
        return self._models.get(name, "")

    def choose(self, name: str) -> ModelChoice:
        """Raises ModelUnknown."""
        known = self._known.get(name) or self._on_route.get(name)
        if known is None and name in self._behind:
            known = self._known.get(self._behind[name])
        if known is None:
            listed = ", ".join(self.names[:_SHOWN])
            raise ModelUnknown(f"there is no model {name[:200]!r}; there are {listed}")
        return known
