"""How each known client is pointed at a server. Pure: an address, a key and a model in, lines out.

A client that reads a file of its own gets one, so that nothing of anybody's is changed: Codex has a profile,
Continue a configuration by name. Files that are shared with other settings are JSON objects, into which
`merge.py` puts the lines. What is set by a command or in code is printed only.
"""

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct

FileFormat = Literal["json", "toml", "yaml"]
CONTEXT = 200_000
"""Tokens for clients that must be told a window and cannot ask. `--context` says a better one."""


class Target(Struct, frozen=True):
    """The server as a client is told of it. `address` has neither a path nor a slash at its end."""

    address: str
    key: str
    relay: str
    """The model for agents that bring their own tools: a route."""
    agent: str
    """The model for everybody else."""
    context: int = CONTEXT

    @property
    def openai(self) -> str:
        return f"{self.address}/v1"


class ClientFile(Struct, frozen=True):
    """A file that a client reads. `path` begins with `~` if it lies in the home folder, else it belongs to
    the folder in which one works."""

    path: PurePosixPath
    format: FileFormat
    text: str


class Setup(Struct, frozen=True):
    """What points one client here."""

    file: ClientFile | None = None
    shell: tuple[str, ...] = ()
    """Commands, or lines of code; with a file, what to do once it is there."""
    note: str = ""


class Recipe(Struct, frozen=True):
    """One client, by the name that a person types."""

    name: str
    title: str
    make: Callable[[Target], Setup]


def _json_file(path: str, value: dict[str, Any]) -> ClientFile:
    return ClientFile(PurePosixPath(path), "json", json.dumps(value, indent=2) + "\n")


def _quoted(text: str) -> str:
    """A string as JSON, TOML and YAML write it, all alike."""
    return json.dumps(text, ensure_ascii=False)


def _claude_code(at: Target) -> Setup:
    environment = {
        "ANTHROPIC_BASE_URL": at.address,
        "ANTHROPIC_AUTH_TOKEN": at.key,
        "ANTHROPIC_MODEL": at.relay,
        # By these it asks for small jobs and for its helpers, under names that this server does not have.
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": at.relay,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": at.relay,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": at.relay,
    }
    return Setup(
        _json_file(".claude/settings.local.json", {"env": environment}),
        ('claude -p "say hi"',),
        "For this folder only. In ~/.claude/settings.json the same lines hold everywhere.",
    )


def _codex(at: Target) -> Setup:
    text = f"""model = {_quoted(at.relay)}
model_provider = "turnbuckle"

[model_providers.turnbuckle]
name = "Turnbuckle"
base_url = {_quoted(at.openai)}
wire_api = "responses"
env_key = "TURNBUCKLE_KEY"
stream_max_retries = 0
http_headers = {{ "X-Turnbuckle-On-Disconnect" = "cancel" }}
"""
    return Setup(
        ClientFile(PurePosixPath("~/.codex/turnbuckle.config.toml"), "toml", text),
        (f"TURNBUCKLE_KEY={_shell(at.key)} codex --profile turnbuckle",),
        "Codex takes its key from the environment. Before 0.134 the lines belong into ~/.codex/config.toml.",
    )


def _opencode(at: Target) -> Setup:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Turnbuckle",
        "options": {"baseURL": at.openai, "apiKey": at.key},
        "models": {name: {} for name in dict.fromkeys((at.relay, at.agent))},
    }
    chosen = f"turnbuckle/{at.relay}"
    value = {"model": chosen, "small_model": chosen, "provider": {"turnbuckle": provider}}
    return Setup(_json_file("opencode.json", value), ('opencode run "say hi"',))


def _aider(at: Target) -> Setup:
    text = (
        f"model: {_quoted(f'openai/{at.relay}')}\nopenai-api-base: {_quoted(at.openai)}\n"
        f"openai-api-key: {_quoted(at.key)}\nshow-model-warnings: false\n"
    )
    return Setup(ClientFile(PurePosixPath(".aider.conf.yml"), "yaml", text), ("aider",))


def _cline(at: Target) -> Setup:
    sign_in = f"cline auth -p openai-compatible -k {_shell(at.key)} -m {_shell(at.relay)} -b {at.openai}"
    return Setup(shell=(sign_in, 'cline -P openai-compatible "say hi"'))


def _continue(at: Target) -> Setup:
    text = f"""name: Turnbuckle
version: 1.0.0
schema: v1
models:
  - name: {_quoted(at.relay)}
    provider: openai
    model: {_quoted(at.relay)}
    apiBase: {_quoted(at.openai)}
    apiKey: {_quoted(at.key)}
    useResponsesApi: false
    capabilities: [tool_use]
    roles: [chat, edit, apply]
"""
    path = "~/.continue/turnbuckle.yaml"
    return Setup(ClientFile(PurePosixPath(path), "yaml", text), (f'cn --config {path} -p "say hi"',))


def _zed(at: Target) -> Setup:
    abilities = {"tools": True, "images": True, "parallel_tool_calls": True, "prompt_cache_key": False}
    models = [
        {
            "name": name,
            "display_name": f"Turnbuckle {name}",
            "max_tokens": at.context,
            "capabilities": abilities,
        }
        for name in dict.fromkeys((at.relay, at.agent))
    ]
    provider = {"Turnbuckle": {"api_url": at.openai, "available_models": models}}
    return Setup(
        _json_file("~/.config/zed/settings.json", {"language_models": {"openai_compatible": provider}}),
        (f"TURNBUCKLE_API_KEY={_shell(at.key)} zed .",),
        "Zed takes the key from the environment or from its settings page, never from this file.",
    )


def _open_webui(at: Target) -> Setup:
    return Setup(
        shell=(f"OPENAI_API_BASE_URL={at.openai} OPENAI_API_KEY={_shell(at.key)} open-webui serve",),
        note=f"Or in its settings: Connections, OpenAI API, +. Choose the model {at.agent}.",
    )


def _vercel_ai(at: Target) -> Setup:
    return Setup(
        shell=(
            'import { createOpenAICompatible } from "@ai-sdk/openai-compatible";',
            'const turnbuckle = createOpenAICompatible({ name: "turnbuckle", '
            f"baseURL: {_quoted(at.openai)}, apiKey: {_quoted(at.key)}, includeUsage: true }});",
            f"const model = turnbuckle({_quoted(at.agent)});",
        )
    )


def _llm(at: Target) -> Setup:
    ask = f"llm openai endpoint {at.openai} -m {_shell(at.agent)} --key {_shell(at.key)}"
    return Setup(shell=(f'{ask} "say hi"',))


def _openai(at: Target) -> Setup:
    return Setup(
        shell=(
            f"export OPENAI_BASE_URL={at.openai}",
            f"export OPENAI_API_KEY={_shell(at.key)}",
        ),
        note=f"For every program with OpenAI's package. Models: {at.agent}, or {at.relay} as a relay.",
    )


def _anthropic(at: Target) -> Setup:
    return Setup(
        shell=(
            f"export ANTHROPIC_BASE_URL={at.address}",
            f"export ANTHROPIC_AUTH_TOKEN={_shell(at.key)}",
        ),
        note=f"For every program with Anthropic's package. Models: {at.agent}, or {at.relay} as a relay.",
    )


def _shell(text: str) -> str:
    """A word for a shell; quoted only if it must be."""
    plain = text.replace("-", "").replace("_", "").replace(".", "").replace("/", "").replace(":", "")
    return text if plain.isascii() and plain.isalnum() else "'" + text.replace("'", "'\\''") + "'"


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("claude-code", "Claude Code", _claude_code),
        Recipe("codex", "Codex", _codex),
        Recipe("opencode", "opencode", _opencode),
        Recipe("aider", "aider", _aider),
        Recipe("cline", "Cline", _cline),
        Recipe("continue", "Continue", _continue),
        Recipe("zed", "Zed", _zed),
        Recipe("open-webui", "Open WebUI", _open_webui),
        Recipe("vercel-ai", "Vercel AI SDK", _vercel_ai),
        Recipe("llm", "llm", _llm),
        Recipe("openai", "any program with OpenAI's package", _openai),
        Recipe("anthropic", "any program with Anthropic's package", _anthropic),
    )
}
