"""What can be set, apart from the server and the clocks of a call, which have their own files. `config.py`
reads it.

Every field has one sentence that says what it is; `docs/configuration.md` is made from them by `make
reference`, so a setting without a sentence is a setting that nobody can look up.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from turnbuckle.call.limits import StallSettings
from turnbuckle.call.presets import PRESETS
from turnbuckle.journal.address import is_database, password_of
from turnbuckle.journal.settings import NodeSettings
from turnbuckle.objects.settings import ENV, ObjectSettings
from turnbuckle.server.settings import ServerSettings
from turnbuckle.session.reset import Surface
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.tools.sandbox.port import SandboxSetting
from turnbuckle.turn.consent import Rule
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.redaction import (
    is_secret_name,
    secrets_in,
    secrets_in_headers,
    secrets_in_url,
    without_secrets_in_url,
)

RouteProtocol = ProtocolName | Literal["rehearsal"]
Family = Literal["files", "shell", "web", "ask", "recall"]
Count = Annotated[int, Meta(ge=1)]
Money = Annotated[float, Meta(gt=0)]
"""How a value is written that the environment holds."""


class RouteSettings(Struct, frozen=True, omit_defaults=True):
    """One way to one model. `[[routes]]` can be repeated: the first is the usual one, the
    others are its fallbacks, in this order."""

    name: Annotated[str, Meta(description="The name of the route. Default: its preset or model.")] = ""
    preset: Annotated[
        str,
        Meta(
            description=("A known provider. It sets address, protocol, quirks and the variable of the key.")
        ),
    ] = ""
    protocol: Annotated[RouteProtocol | None, Meta(description="The protocol, if there is no preset.")] = None
    base_url: Annotated[
        str, Meta(description="The base URL, if there is no preset or it is served elsewhere.")
    ] = ""
    api_key: Annotated[
        str | None,
        Meta(description=("The API key, best written as `env:NAME`. Default: the preset's variable.")),
    ] = None
    model: Annotated[str, Meta(description="The provider's name of the model.")] = ""
    effort: Annotated[str | None, Meta(description="The reasoning effort, in the provider's own word.")] = (
        None
    )
    max_output_tokens: Annotated[
        Count | None, Meta(description="The output limit of one model call, in tokens.")
    ] = None
    most_output_tokens: Annotated[
        Count | None,
        Meta(description=("The output limit may be raised to this, once, if a reply was cut by it.")),
    ] = None
    context_window: Annotated[
        Count | None,
        Meta(
            description=(
                "The model's context window in tokens, if neither the provider nor "
                "the price table knows it, or to use less of it."
            )
        ),
    ] = None
    price: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "US dollars for a million tokens: `{ input = 3, output = 15, cached = 0.3 }`. "
                "Default: what the price table says. See [costs](costs.md)."
            )
        ),
    ] = {}
    headers: Annotated[dict[str, str], Meta(description="Extra headers. Values may be `env:NAME`.")] = {}
    quirks: Annotated[
        dict[str, Any], Meta(description="How this host differs from its protocol, see [quirks](quirks.md).")
    ] = {}
    stall: Annotated[
        dict[str, Any], Meta(description="Time limits of this route alone, named as in `[stall]`.")
    ] = {}
    extra: Annotated[dict[str, Any], Meta(description="Extra fields of the request body.")] = {}
    local: Annotated[
        bool | None,
        Meta(
            description=(
                "The model runs on this machine or network and may be slow to "
                "start. Default: known from the address."
            )
        ),
    ] = None

    def __repr__(self) -> str:
        name = self.name or self.preset or self.model
        address = without_secrets_in_url(self.base_url)
        return f"RouteSettings({name!r}, {self.protocol!r}, {address!r}, {self.model!r})"


class RecoverySettings(Struct, frozen=True):
    """How often a failure is retried. A try that brought new text or arguments starts the count
    again."""

    stream_retries: Annotated[
        int, Meta(ge=0, description="Extra silent retries while no output has been shown.")
    ] = 2
    patience: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Wait this many seconds for a route that is down (connection "
                "refused, 503, 429) if there is no other route and no output has "
                "been shown."
            ),
        ),
    ] = 75.0
    continuations: Annotated[
        int, Meta(ge=0, description="Recoveries in a row without new output before the run ends.")
    ] = 3
    max_recoveries: Annotated[
        int, Meta(ge=0, description="Restarts after a crash without progress before the run ends.")
    ] = 2


class TurnSettings(Struct, frozen=True):
    """The limits of one run. Reaching one ends it cleanly, and what it has is kept."""

    max_calls: Annotated[int, Meta(ge=1, description="Maximum model calls.")] = 90
    max_tool_calls: Annotated[int, Meta(ge=0, description="Maximum tool calls.")] = 300
    max_seconds: Annotated[
        float,
        Meta(gt=0, description=("Maximum working time in seconds. Waiting for a person does not count.")),
    ] = 3600.0
    max_tokens: Annotated[Count | None, Meta(description="Maximum tokens.")] = None
    max_money: Annotated[
        Money | None, Meta(description="Maximum cost in US dollars, if the price of the model is known.")
    ] = None
    same_call: Annotated[
        int, Meta(ge=1, description="How often the model may make the very same tool call.")
    ] = 5


class ContextSettings(Struct, frozen=True):
    """What happens when a conversation fills the model's window. See [long conversations](context.md)."""

    compact: Annotated[
        bool, Meta(description=("Shorten the history that is sent to the model before it no longer fits."))
    ] = True
    threshold: Annotated[
        int, Meta(ge=10, le=95, description="Shorten it when this per cent of the context window is used.")
    ] = 80
    route: Annotated[
        str, Meta(description="The route that writes summaries. Default: the route that answers.")
    ] = ""
    max_compactions: Annotated[
        int,
        Meta(
            ge=1,
            description=(
                "How often the history may be shortened in one run. After that the run ends and says why."
            ),
        ),
    ] = 20


class SessionSettings(Struct, frozen=True):
    """How conversations go on, start fresh, and what is kept of them. See [sessions](sessions.md)."""

    reset: Annotated[
        Literal["none", "idle", "daily", "both"],
        Meta(description="When a conversation starts fresh by itself."),
    ] = "none"
    idle_minutes: Annotated[
        float, Meta(gt=0, description="For `idle`: start fresh after this many minutes without a message.")
    ] = 1440.0
    daily_hour: Annotated[
        int, Meta(ge=0, le=23, description="For `daily`: start fresh at this hour of the day.")
    ] = 4
    busy: Annotated[
        Literal["queue", "steer", "interrupt", "refuse"],
        Meta(description="What happens to a message that arrives during a run."),
    ] = "queue"
    after_crash: Annotated[
        Literal["resume", "suspend"], Meta(description="What a starting server does with unfinished runs.")
    ] = "resume"
    stale_after: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Runs interrupted longer ago than this many seconds are not resumed "
                "automatically. 0 = always resume."
            ),
        ),
    ] = 43_200.0
    time_zone: Annotated[
        str,
        Meta(
            description=("The time zone of `daily_hour`, such as `Europe/Berlin`. Empty = the machine's own.")
        ),
    ] = ""
    quiet: Annotated[
        tuple[Surface, ...],
        Meta(
            description=(
                "Interfaces that do not mention a planned fresh start. A fresh "
                "start after a stop or a crash is always mentioned."
            )
        ),
    ] = ()
    keep_deltas_days: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Days after a run's end until its small pieces are merged. No text is lost. 0 = never."
            ),
        ),
    ] = 0.0
    keep_relays_hours: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Hours until relays without a session, and answers with `store: "
                "false`, are deleted. 0 = never."
            ),
        ),
    ] = 24.0


class ToolSettings(Struct, frozen=True):
    """What the model may do. See [consent](#consent)."""

    enable: Annotated[
        tuple[Family, ...], Meta(description="The groups of built-in tools that models are offered.")
    ] = (
        "files",
        "shell",
        "web",
        "ask",
        "recall",
    )
    mcp: Annotated[
        dict[str, McpSettings],
        Meta(description="Tables of [MCP servers](tools.md#mcp-servers), by their names."),
    ] = {}
    approval: Annotated[
        dict[str, Rule],
        Meta(description=("Rules by tool and pattern: allow, ask or deny, see [below](#consent).")),
    ] = {}
    answer_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Seconds that a person has to answer a question. After that the "
                "call is not allowed. 0 = no limit."
            ),
        ),
    ] = 3600.0
    modules: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "Files (`my_tools.py`) and modules with [your own tools](tools.md), loaded at start-up."
            )
        ),
    ] = ()
    private_addresses: Annotated[bool, Meta(description="Allow `fetch_url` to visit private networks.")] = (
        False
    )
    sandbox: Annotated[
        SandboxSetting,
        Meta(
            description=(
                "Run commands in a [sandbox](security.md#the-sandbox). `auto` uses "
                "what this machine offers and says what that is; `strict` refuses "
                "to start without one; `off` uses none."
            )
        ),
    ] = "auto"
    network: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "Commands that may use the network, by their first words: `git`, "
                "`pip install`. `*` = every command. Others must [ask](#consent)."
            )
        ),
    ] = ()
    readable: Annotated[
        tuple[str, ...],
        Meta(
            description=("Extra files and folders that sandboxed commands may read, such as `~/.gitconfig`.")
        ),
    ] = ()
    writable: Annotated[
        tuple[str, ...],
        Meta(description=("Extra folders that sandboxed commands may write, such as `~/.cache/pip`.")),
    ] = ()
    max_processes: Annotated[
        int, Meta(ge=0, description=("Maximum processes and threads of one sandboxed command. 0 = no limit."))
    ] = 1000
    max_memory_mb: Annotated[
        int,
        Meta(ge=0, description=("Maximum memory of one sandboxed command in MB. 0 = half of the machine's.")),
    ] = 0
    max_file_mb: Annotated[
        int, Meta(ge=0, description=("Largest file in MB that a sandboxed command may write. 0 = no limit."))
    ] = 10_000
    max_cpu_seconds: Annotated[
        int, Meta(ge=0, description="Maximum CPU seconds of one sandboxed process. 0 = no limit.")
    ] = 14_400
    background_seconds: Annotated[
        int, Meta(ge=0, description="Seconds that a sandboxed background process may run. 0 = no limit.")
    ] = 86_400


class AgentSettings(Struct, frozen=True):
    """What the agent is told before every conversation."""

    instructions: Annotated[
        str,
        Meta(
            description=(
                "Instructions in place of the built-in ones; `{workspace}` stands for the folder. One "
                "sentence is always added that explains messages from the runtime. Empty = the built-in ones."
            )
        ),
    ] = ""


RELOADED = frozenset(
    "turn recovery context tools.approval tools.answer_seconds server.max_runs server.max_runs_per_owner "
    "server.requests_per_minute server.max_money_per_day server.idempotency_hours session.keep_deltas_days "
    "session.keep_relays_hours".split()
)
"""What a running server takes from its file again when it gets SIGHUP: tables, and single keys. Everything
else is built into what runs (addresses, routes and their keys, tools, the sandbox) and needs a restart."""


def is_reloaded(key: str) -> bool:
    """Whether a running server can take this setting again, by its dotted key."""
    return key in RELOADED or key.partition(".")[0] in RELOADED


class Settings(Struct, frozen=True):
    """All settings. Paths are absolute once they are loaded."""

    workspace: Annotated[str, Meta(description="The folder that file and shell tools work in.")] = "."
    workspace_per_session: Annotated[
        bool,
        Meta(
            description=(
                "Give each session a folder of its own under `workspace`. Its tools see no other. Among "
                "several servers, see [where files are](scale.md#where-files-are)."
            )
        ),
    ] = False
    data: Annotated[
        str,
        Meta(
            description=(
                "The folder of the journal and of long tool outputs, or the address of a Postgres database "
                "for the journal alone: `postgresql://user@host/name`, see [scale](scale.md). A folder "
                "belongs to one process at a time; servers can share a database."
            )
        ),
    ] = ".turnbuckle"
    files: Annotated[
        str,
        Meta(
            description=(
                "If `data` is a database: the folder of what stays on this machine, such as keys and long "
                "tool outputs."
            )
        ),
    ] = ".turnbuckle"
    server: ServerSettings = ServerSettings()
    routes: tuple[RouteSettings, ...] = ()
    stall: StallSettings = StallSettings()
    recovery: RecoverySettings = RecoverySettings()
    turn: TurnSettings = TurnSettings()
    context: ContextSettings = ContextSettings()
    session: SessionSettings = SessionSettings()
    agent: AgentSettings = AgentSettings()
    tools: ToolSettings = ToolSettings()
    node: NodeSettings = NodeSettings()
    objects: ObjectSettings = ObjectSettings()

    @property
    def folder(self) -> str:
        """Where files lie on this machine, whatever the journal is kept in."""
        return self.files if is_database(self.data) else self.data


class Secrets(Struct, frozen=True):
    """What must not leave: values, and the names of variables that hold one."""

    values: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()


def secrets_of(settings: Settings, environment: Mapping[str, str]) -> Secrets:
    """All secrets that the settings and the environment hold, for logs, tools, errors and prints alike."""
    written = [text for _, text in _named_texts(msgspec.to_builtins(settings)) if text.startswith(ENV)]
    presets = [PRESETS[route.preset].key for route in settings.routes if route.preset in PRESETS]
    variables = {*presets, *(value.removeprefix(ENV) for value in written)} - {""}
    values = {environment[name].strip() for name in variables if environment.get(name)}
    values |= secrets_in(environment) | {key for key in settings.server.api_keys if not key.startswith(ENV)}
    values |= {password_of(settings.data), *_written_keys(settings.objects)}
    for route in settings.routes:
        bare = {name: text for name, text in route.headers.items() if not text.startswith(ENV)}
        key = route.api_key or ""
        values |= (
            secrets_in_headers(bare) | secrets_in_url(route.base_url) | {"" if key.startswith(ENV) else key}
        )
        values |= {text for name, text in _named_texts(route.extra) if is_secret_name(name)}
    for server in settings.tools.mcp.values():
        bare = {name: text for name, text in server.headers.items() if not text.startswith(ENV)}
        values |= secrets_in_headers(bare) | secrets_in_url(server.url)
        values |= {
            text for name, text in server.env.items() if is_secret_name(name) and not text.startswith(ENV)
        }
    return Secrets(frozenset(values - {""}), frozenset(variables))


def _written_keys(objects: ObjectSettings) -> set[str]:
    keys = {key for key in (objects.access_key, objects.secret_key) if not key.startswith(ENV)}
    return keys | secrets_in_url(objects.endpoint)


def _named_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _named_texts(inner, str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _named_texts(inner, name)
