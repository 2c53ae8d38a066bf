"""What can be set, apart from the server and the clocks of a call, which have their own files. `config.py`
reads it.

Every field has one sentence that says what it is; `docs/configuration.md` is made from them by `make
reference`, so a setting without a sentence is a setting that nobody can look up.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from turnbuckle.call.limits import StallSettings
from turnbuckle.server.settings import ServerSettings
from turnbuckle.session.reset import Surface
from turnbuckle.tools.sandbox.port import SandboxSetting
from turnbuckle.turn.consent import Rule
from turnbuckle.vocab.ids import ProtocolName

RouteProtocol = ProtocolName | Literal["rehearsal"]
Family = Literal["files", "shell", "web", "ask", "recall"]
Count = Annotated[int, Meta(ge=1)]
Money = Annotated[float, Meta(gt=0)]


class RouteSettings(Struct, frozen=True, omit_defaults=True):
    """One way to one model. `[[routes]]` may stand there several times: the first is the usual one, the
    others are its fallbacks, in this order."""

    name: Annotated[str, Meta(description="What the route is called; its preset or model if left out.")] = ""
    preset: Annotated[
        str, Meta(description="A known provider: where it is, what it speaks, where its key lies.")
    ] = ""
    protocol: Annotated[RouteProtocol | None, Meta(description="What it speaks, if there is no preset.")] = (
        None
    )
    base_url: Annotated[str, Meta(description="Where it is, if there is no preset or it is elsewhere.")] = ""
    api_key: Annotated[
        str | None, Meta(description="The key, best as `env:NAME`; the preset's own variable if left out.")
    ] = None
    model: Annotated[str, Meta(description="The model's name there.")] = ""
    effort: Annotated[str | None, Meta(description="How hard it thinks, in the provider's own word.")] = None
    max_output_tokens: Annotated[Count | None, Meta(description="The output cap.")] = None
    most_output_tokens: Annotated[
        Count | None, Meta(description="What the cap may be raised to, once, where that helps.")
    ] = None
    context_window: Annotated[
        Count | None,
        Meta(
            description="How many tokens the model takes in all, where neither its provider nor the price "
            "table tells, or where it is to be less."
        ),
    ] = None
    headers: Annotated[dict[str, str], Meta(description="More headers; values may be `env:NAME`.")] = {}
    quirks: Annotated[
        dict[str, Any], Meta(description="How it differs from its protocol, see [quirks](quirks.md).")
    ] = {}
    stall: Annotated[
        dict[str, Any], Meta(description="Clocks of this route alone, named as in `[stall]`.")
    ] = {}
    extra: Annotated[dict[str, Any], Meta(description="More fields of the request.")] = {}
    local: Annotated[
        bool | None,
        Meta(description="Whether it is near and may be slow to begin; told from the address if left out."),
    ] = None

    def __repr__(self) -> str:
        name = self.name or self.preset or self.model
        return f"RouteSettings({name!r}, {self.protocol!r}, {self.base_url!r}, {self.model!r})"


class RecoverySettings(Struct, frozen=True):
    """How often something broken is taken up again. A try that brought new text or arguments starts the count
    again."""

    stream_retries: Annotated[int, Meta(ge=0, description="Silent tries more, while nothing was shown.")] = 2
    patience: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds for which a route that is down (refused, 503, too many requests) is "
            "waited for where "
            "there is no other, while nothing was shown.",
        ),
    ] = 75.0
    continuations: Annotated[
        int, Meta(ge=0, description="Tries in a row without progress before the turn ends.")
    ] = 3
    max_recoveries: Annotated[
        int, Meta(ge=0, description="Comebacks after a crash without progress before the run ends.")
    ] = 2


class TurnSettings(Struct, frozen=True):
    """The limits of one run. Reaching one ends it cleanly, and what it has is kept."""

    max_calls: Annotated[int, Meta(ge=1, description="Model calls of one run.")] = 90
    max_tool_calls: Annotated[int, Meta(ge=0, description="Tool calls of one run.")] = 300
    max_seconds: Annotated[float, Meta(gt=0, description="Time of one run.")] = 3600.0
    max_tokens: Annotated[Count | None, Meta(description="Tokens of one run.")] = None
    max_money: Annotated[
        Money | None, Meta(description="US dollars of one run, where the price of the model is known.")
    ] = None
    same_call: Annotated[int, Meta(ge=1, description="How often the very same call may be made.")] = 5


class ContextSettings(Struct, frozen=True):
    """What happens when a conversation fills the model's window. See [long conversations](context.md)."""

    compact: Annotated[
        bool, Meta(description="Make the history that models are told smaller before it does not fit.")
    ] = True
    threshold: Annotated[
        int, Meta(ge=10, le=95, description="The per cent of the window that may be used before that.")
    ] = 80
    route: Annotated[
        str, Meta(description="The route that writes summaries; the one that answers if left out.")
    ] = ""
    max_compactions: Annotated[
        int, Meta(ge=1, description="How often in one run, before it ends with words.")
    ] = 20


class SessionSettings(Struct, frozen=True):
    """How conversations go on, start fresh, and what is kept of them. See [sessions](sessions.md)."""

    reset: Annotated[
        Literal["none", "idle", "daily", "both"],
        Meta(description="When a conversation starts fresh by itself."),
    ] = "none"
    idle_minutes: Annotated[
        float, Meta(gt=0, description="After so many minutes of silence, for `idle`.")
    ] = 1440.0
    daily_hour: Annotated[int, Meta(ge=0, le=23, description="At this hour of the day, for `daily`.")] = 4
    busy: Annotated[
        Literal["queue", "steer", "interrupt", "refuse"],
        Meta(description="What becomes of a message that comes while a run is under way."),
    ] = "queue"
    after_crash: Annotated[
        Literal["resume", "suspend"], Meta(description="What a start does with runs that have no end.")
    ] = "resume"
    stale_after: Annotated[
        float,
        Meta(
            ge=0, description="Seconds after which such a run waits for somebody to ask for it; 0 is never."
        ),
    ] = 43_200.0
    time_zone: Annotated[
        str,
        Meta(description="In which the hour counts, such as `Europe/Berlin`; empty is the machine's own."),
    ] = ""
    quiet: Annotated[
        tuple[Surface, ...],
        Meta(
            description="Where users are not told of a fresh start that they or the settings wanted; "
            "one after a stop or a crash is always told."
        ),
    ] = ()
    keep_deltas_days: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Days after a run's end until its bursts are merged; its facts and its text stay; 0 is never."
            ),
        ),
    ] = 0.0
    keep_relays_hours: Annotated[
        float,
        Meta(
            ge=0,
            description="Hours until answers that were not to be stored, and relays without a session, "
            "are deleted; "
            "0 is never.",
        ),
    ] = 24.0


class ToolSettings(Struct, frozen=True):
    """What the model may do. See [consent](#consent)."""

    enable: Annotated[tuple[Family, ...], Meta(description="Families of tools.")] = (
        "files",
        "shell",
        "web",
        "ask",
        "recall",
    )
    approval: Annotated[
        dict[str, Rule],
        Meta(description="The rule by the name of a tool and a pattern, see [below](#consent)."),
    ] = {}
    answer_seconds: Annotated[
        float,
        Meta(ge=0, description="How long a person has to answer; then there is no consent. 0 is for ever."),
    ] = 3600.0
    modules: Annotated[
        tuple[str, ...],
        Meta(description="Files (`my_tools.py`) and modules with [own tools](tools.md), loaded at start-up."),
    ] = ()
    private_addresses: Annotated[
        bool, Meta(description="Whether `fetch_url` may visit private networks.")
    ] = False
    sandbox: Annotated[
        SandboxSetting,
        Meta(
            description="Where commands run: `auto` takes the [sandbox](security.md#the-sandbox) that this "
            "machine can give and says which; `strict` does not start without one; `off` has none."
        ),
    ] = "auto"
    network: Annotated[
        tuple[str, ...],
        Meta(
            description="Commands that have the network, by their first words: `git`, `pip install`; `*` is "
            "every command. Others must [ask](#consent)."
        ),
    ] = ()
    readable: Annotated[
        tuple[str, ...],
        Meta(description="More files and folders that commands in the sandbox may read: `~/.gitconfig`."),
    ] = ()
    writable: Annotated[
        tuple[str, ...], Meta(description="More folders that they may change: `~/.cache/pip`.")
    ] = ()
    max_processes: Annotated[
        int, Meta(ge=0, description="Processes and threads of one command in the sandbox; 0 is no limit.")
    ] = 1000
    max_memory_mb: Annotated[
        int, Meta(ge=0, description="Memory of one command in the sandbox; 0 is half of the machine's.")
    ] = 0
    max_file_mb: Annotated[
        int, Meta(ge=0, description="The largest file that a command in the sandbox may write; 0 is any.")
    ] = 10_000
    max_cpu_seconds: Annotated[
        int, Meta(ge=0, description="Processor time of one process in the sandbox; 0 is no limit.")
    ] = 14_400
    background_seconds: Annotated[
        int, Meta(ge=0, description="How long a background process in the sandbox may run; 0 is for ever.")
    ] = 86_400


class Settings(Struct, frozen=True):
    """All settings. Paths are absolute once they are loaded."""

    workspace: Annotated[str, Meta(description="The folder in which file and shell tools act.")] = "."
    data: Annotated[
        str, Meta(description="The journal and kept outputs; one process writes there at a time.")
    ] = ".turnbuckle"
    server: ServerSettings = ServerSettings()
    routes: tuple[RouteSettings, ...] = ()
    stall: StallSettings = StallSettings()
    recovery: RecoverySettings = RecoverySettings()
    turn: TurnSettings = TurnSettings()
    context: ContextSettings = ContextSettings()
    session: SessionSettings = SessionSettings()
    tools: ToolSettings = ToolSettings()
