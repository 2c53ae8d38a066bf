"""`turnbuckle init`: a few questions, a real try, and a settings file.

Nothing is written before everything was answered and tried, so whoever leaves in the middle leaves nothing
behind. The key is named in the file and never put into it, unless that is asked for. With options instead of
answers it asks nothing: `--yes` takes the usual answer wherever nothing else was said.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.call.loop import run as run_loop
from turnbuckle.call.presets import PRESETS
from turnbuckle.call.routes import Route, RouteError, is_local, resolve
from turnbuckle.cli.config import fail
from turnbuckle.cli.doctor.finding import Finding, all_well
from turnbuckle.cli.echo import echo_json
from turnbuckle.cli.exits import CANCELLED, FAILED, OK, USAGE_ERROR
from turnbuckle.cli.init.file import Chosen, text_of, write
from turnbuckle.cli.init.questions import NoAnswer, Questions
from turnbuckle.cli.init.search import FoundProvider, for_chat, keys_found, models_of, servers_found
from turnbuckle.cli.init.trial import RouteTrial, advice, findings, shown, try_route
from turnbuckle.cli.options import Flag, JsonFlag
from turnbuckle.config import FILE, REHEARSAL, load
from turnbuckle.errors import ConfigError
from turnbuckle.server.keys import OWNER, KeyFile
from turnbuckle.trust import TrustStore
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import PROTOCOL_NAMES

EPILOGUE = """Ctrl-C leaves everything as it was.

Without questions: turnbuckle init --provider openai --model NAME --yes"""
ANOTHER = "another"

app = App(name="init", help_epilogue=EPILOGUE)
Text = Annotated[str, Parameter(show_default=False)]


class InitOptions(Struct, frozen=True):
    """What the command line says already. Empty: to be asked, or the usual answer."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    protocol: str = ""
    key_env: str = ""
    workspace: str = ""
    shell: str = ""
    server_key: str = ""
    file: Path = Path(FILE)
    test: bool = True
    force: bool = False
    write_key: bool = False


class InitRefused(ConfigError):
    """It cannot go on without an answer that nobody gave, or the try did not work."""


@app.default
def init(
    *,
    provider: Text = "",
    model: Text = "",
    base_url: Text = "",
    protocol: Text = "",
    key_env: Text = "",
    workspace: Text = "",
    shell: Annotated[Literal["ask", "allow", "deny"] | None, Parameter(show_default=False)] = None,
    server_key: Text = "",
    config: Annotated[Path | None, Parameter(show_default=False)] = None,
    yes: Flag = False,
    no_test: Flag = False,
    force: Flag = False,
    write_key: Flag = False,
    as_json: JsonFlag = False,
) -> int:
    """Set up a provider: choose it, try it, and write turnbuckle.toml.

    Parameters
    ----------
    provider
        A known provider, such as openai, anthropic, openrouter, ollama, vllm; rehearsal, a built-in fake
        model; or any name of yours together with --base-url.
    model
        The model's name there.
    base_url
        Where it is, if that is not its usual place.
    protocol
        What it speaks: openai_chat (usual), openai_responses, anthropic or gemini.
    key_env
        The environment variable that holds the key, if that is not its usual one.
    workspace
        The folder in which file and shell tools act.
    shell
        Whether the model may run commands: ask first (usual), allow or deny.
    server_key
        Also make a key of this name for the server, and print it once.
    config
        The file to write; turnbuckle.toml in this folder if left out.
    yes
        Ask nothing, and take the usual answer where no option says otherwise.
    no_test
        Do not try the provider.
    force
        Replace a file that is there. A copy of it is kept.
    write_key
        Put the key itself into the file, which then only you can read.
    as_json
        As JSON, for programs; asks nothing.
    """
    asked = Questions(accept=yes or as_json, quiet=as_json)
    wanted = InitOptions(
        *(provider, model, base_url, protocol, key_env, workspace, shell or "", server_key),
        *((config or Path.cwd() / FILE).absolute(), not no_test, force, write_key),
    )
    try:
        return _Setup(wanted, asked, dict(os.environ)).run(as_json=as_json)
    except InitRefused as error:
        return fail(error, FAILED)
    except (ConfigError, NoAnswer) as error:
        return fail(f"{error} (nothing was written)", USAGE_ERROR)
    except KeyboardInterrupt:
        asked.say("")
        return fail("stopped; nothing was written", CANCELLED)


class _Setup:
    """One walk through the questions."""

    def __init__(self, wanted: InitOptions, asked: Questions, environment: Mapping[str, str]) -> None:
        self._wanted = wanted
        self._asked = asked
        self._environment = dict(environment)
        self._models: tuple[str, ...] = ()

    def run(self, *, as_json: bool) -> int:
        wanted, asked = self._wanted, self._asked
        if not asked.accept:
            asked.say(
                "A few questions, a try, then the settings are written. Ctrl-C leaves everything as it was.",
                "",
            )
        self._may_write()
        chosen, trial = self._tried()
        if chosen.protocol != REHEARSAL:
            chosen = replace(chosen, api_key=self._written_key(chosen.api_key))
        chosen = replace(chosen, workspace=self._workspace(), shell=self._shell())
        name = wanted.server_key or self._server_key()
        holds_key = bool(chosen.api_key) and not chosen.api_key.startswith("env:")
        copy = write(wanted.file, text_of(chosen), is_secret=holds_key)
        self._trust()
        token = (
            KeyFile(wanted.file.parent / ".turnbuckle").create(name, OWNER, time.time())[1] if name else ""
        )
        if as_json:
            echo_json(self._told(chosen, trial, copy, token))
        else:
            self._farewell(chosen, copy, token)
        return OK

    # The file

    def _trust(self) -> None:
        """The person chose all that stands there, so nobody asks about it."""
        try:
            TrustStore().accept(self._wanted.file, load(self._wanted.file, environment={}).digest)
        except ConfigError as error:
            self._asked.say(f"{error}. `turnbuckle trust` accepts the new file.")

    def _may_write(self) -> None:
        wanted, asked = self._wanted, self._asked
        if not wanted.file.exists() or wanted.force:
            return
        if asked.accept or not asked.yes(
            f"{wanted.file.name} is there already. Replace it, and keep a copy?"
        ):
            raise InitRefused(
                f"{wanted.file} is there already and was left alone; --force replaces it and keeps a copy"
            )

    def _workspace(self) -> str:
        while True:
            place = self._wanted.workspace or self._asked.line("The folder in which the tools act", ".")
            if (self._wanted.file.parent / Path(place).expanduser()).is_dir():
                return place
            if self._wanted.workspace or self._asked.accept:
                raise ConfigError(f"the workspace {place} is not a folder")
            self._asked.say(f"{place} is not a folder.")

    def _shell(self) -> str:
        question = "May the model run shell commands? A command can do whatever you can"
        return self._wanted.shell or self._asked.one_of(question, ("ask", "allow", "deny"), "ask")

    def _server_key(self) -> str:
        question = (
            "Make a key for the server? Without one it serves this machine only, and asks nobody for a key"
        )
        return "init" if self._asked.yes(question) else ""

    def _written_key(self, named: str) -> str:
        held = self._environment.get(named.removeprefix("env:"), "").strip() if named else ""
        return held if held and self._wanted.write_key else named

    # The provider

    def _tried(self) -> tuple[Chosen, RouteTrial | None]:
        """A provider and a model that work, or that somebody wants all the same."""
        asked = self._asked
        chosen = self._with_model(self._provider())
        while True:
            if chosen.protocol == REHEARSAL or not self._wanted.test:
                return chosen, None
            asked.say(f"Trying {chosen.model} at {self._route(chosen).base_url} …")
            trial = run_loop(try_route(self._route(chosen)))
            told = findings(trial, chosen.model, _source(chosen.api_key), self._models, chosen.model)
            asked.say(*(line for finding in told for line in finding.lines()))
            if all_well(told):
                return chosen, trial
            asked.say("")
            if asked.accept:
                raise InitRefused(f"nothing was written: {_summary(told)} --no-test writes it all the same")
            match asked.one_of("What now", ("again", "model", "provider", "write", "quit"), "again"):
                case "model":
                    chosen = self._with_model(replace(chosen, model=""), fresh=True)
                case "provider":
                    self._wanted = replace(
                        self._wanted, provider="", base_url="", protocol="", key_env="", model=""
                    )
                    chosen = self._with_model(self._provider())
                case "write":
                    return chosen, trial
                case "quit":
                    raise InitRefused("nothing was written")

    def _provider(self) -> Chosen:
        wanted = self._wanted
        name = wanted.provider or ("" if not wanted.base_url else ANOTHER) or self._picked()
        if name == REHEARSAL:
            return Chosen(protocol=REHEARSAL)
        preset = PRESETS.get(name)
        if preset is None and "://" in name:
            wanted = replace(wanted, base_url=name)
        elif preset is None and name != ANOTHER and not wanted.base_url:
            raise ConfigError(
                f"there is no provider {name}; known are {', '.join(PRESETS)}, or give --base-url"
            )
        base_url = wanted.base_url or ("" if preset is not None and preset.base_url else self._address(name))
        if wanted.protocol and wanted.protocol not in PROTOCOL_NAMES:
            raise ConfigError(f"--protocol {wanted.protocol} is not one of {', '.join(PROTOCOL_NAMES)}")
        protocol = wanted.protocol or ("" if preset is not None else self._protocol())
        where = base_url or (preset.base_url if preset is not None else "")
        usual = preset.key if preset is not None else ""
        named = self._key(usual, near=is_local(where))
        return Chosen(name if preset is not None else "", protocol, base_url, named)

    def _picked(self) -> str:
        """The provider by question; of those that could be used right away, the first is the usual one."""
        asked = self._asked
        asked.say("Looking for keys and for model servers on this machine …")
        found = [*keys_found(self._environment), *run_loop(servers_found())]
        if asked.accept:
            if not found:
                raise InitRefused(
                    "no key is in the environment and no model server answers here: name one by --provider"
                )
            return found[0].preset
        return _named(asked, found)

    def _address(self, name: str) -> str:
        return self._needed(
            "base-url", f"The address of {name if name != ANOTHER else 'the API'}, such as https://host/v1"
        )

    def _protocol(self) -> str:
        return self._asked.one_of("What it speaks", PROTOCOL_NAMES, "openai_chat")

    def _needed(self, option: str, question: str) -> str:
        while not self._asked.accept:
            if answer := self._asked.line(question):
                return answer
        raise ConfigError(f"--{option} is needed here")

    def _key(self, usual: str, *, near: bool) -> str:
        """Where the key is, as `env:NAME`. A key that is typed is used for the try, and forgotten."""
        asked, wanted = self._asked, self._wanted
        name = wanted.key_env or usual
        if not wanted.key_env and (near or not usual):
            if not self._environment.get(usual) and (
                asked.accept or near or not asked.yes("Does it want a key?")
            ):
                return ""
            name = usual or asked.line("The environment variable that holds the key", "MODEL_API_KEY")
        if self._environment.get(name, "").strip():
            asked.say(f"The key is taken from {name}.")
            return f"env:{name}"
        if asked.accept:
            raise ConfigError(f"the environment has no {name}: set it, or name another one by --key-env")
        asked.say(f"The key belongs into the environment variable {name}, which is not set.")
        typed = asked.secret("Paste the key to try it now (it is not shown)")
        if not typed and wanted.test:
            raise ConfigError(f"without a key there is nothing to try: set {name}, or use --no-test")
        self._environment[name] = typed
        return f"env:{name}"

    def _with_model(self, chosen: Chosen, *, fresh: bool = False) -> Chosen:
        """With a model: the one that was said, else one of those that the provider lists."""
        if chosen.protocol == REHEARSAL:
            return chosen
        wanted, asked = "" if fresh else self._wanted.model, self._asked
        if wanted and not self._wanted.test:
            return replace(chosen, model=wanted)
        listed = run_loop(models_of(self._route(replace(chosen, model=wanted or "any"))))
        if isinstance(listed, Failure):
            self._no_list(listed, chosen, asked)
            self._models = ()
        else:
            self._models = for_chat(listed)
        if wanted:
            return replace(chosen, model=wanted)
        if asked.accept and not self._models:
            raise ConfigError("the provider lists no models: name one by --model")
        if not self._models:
            return replace(chosen, model=self._needed("model", "Model"))
        if not asked.accept:
            asked.say("", "Its models:")
        return replace(chosen, model=asked.pick("Model", self._models))

    def _no_list(self, why: Failure, chosen: Chosen, asked: Questions) -> None:
        if why.kind in ("auth", "permission", "connect"):
            told = Finding("wrong", "its list of models", shown(why), advice(why, _source(chosen.api_key)))
            if asked.accept and self._wanted.test and why.kind != "permission":
                raise InitRefused(f"nothing was written. {told.what}. {told.fix}")
            asked.say(*told.lines())
        else:
            asked.say(f"It does not list its models ({shown(why)}).")

    def _route(self, chosen: Chosen) -> Route:
        try:
            return resolve({"name": "init", **chosen.route()}, self._environment)
        except RouteError as error:
            raise ConfigError(str(error).removeprefix("route init: ")) from None

    # The end

    def _farewell(self, chosen: Chosen, copy: Path | None, token: str) -> None:
        say = self._asked.say
        say(f"Wrote {self._wanted.file}.")
        if copy is not None:
            say(f"What was there is kept as {copy.name}.")
        name = chosen.api_key.removeprefix("env:")
        if chosen.api_key.startswith("env:") and not os.environ.get(name):
            say(f"Before you start: export {name}=…")
        if token:
            say("", "The server's key, which is not shown again:", token)
        say(
            "",
            "Next:",
            '  turnbuckle run "say hello"    one task',
            "  turnbuckle chat               a conversation",
        )
        say("  turnbuckle serve              the server and its console")

    def _told(
        self, chosen: Chosen, trial: RouteTrial | None, copy: Path | None, token: str
    ) -> dict[str, Any]:
        shown_key = (
            chosen.api_key if chosen.api_key.startswith("env:") else "(in the file)" if chosen.api_key else ""
        )
        return {
            "file": str(self._wanted.file),
            "copy": None if copy is None else str(copy),
            **{**chosen.route(), "api_key": shown_key},
            "workspace": chosen.workspace,
            "shell": chosen.shell,
            "server_key": token,
            "trial": msgspec.to_builtins(trial),
        }


def _named(asked: Questions, found: list[FoundProvider]) -> str:
    rows = [(one.preset, one.why) for one in found]
    rows += [
        (REHEARSAL, "a built-in fake model, to try everything without a key"),
        (ANOTHER, "any other, by name or address"),
    ]
    names = [name for name, _ in rows]
    asked.say("")
    picked = asked.pick("Provider", names, [why for _, why in rows])
    while not (picked in names or _is_known(picked)):
        asked.say(f"there is no provider {picked}; `{ANOTHER}` lists those that are known")
        picked = asked.pick("Provider", names)
    if picked != ANOTHER:
        return picked
    asked.say("", f"Known are: {', '.join(PRESETS)}")
    while (named := asked.line("One of these, or the address of an API")) and not _is_known(named):
        asked.say(f"{named} is not one of these, and not an address such as https://host/v1")
    return named or ANOTHER


def _is_known(name: str) -> bool:
    return name in PRESETS or "://" in name


def _source(key: str) -> str:
    return key.removeprefix("env:") if key.startswith("env:") else ""


def _summary(told: list[Finding]) -> str:
    return " ".join(f"{one.what}." for one in told if one.level == "wrong")
