"""The settings file that `turnbuckle init` writes: with comments, whole or not at all, and never over another
one without a copy of that."""

from pathlib import Path

import msgspec
from msgspec import Struct

from turnbuckle.cli.replaced_file import replace_file
from turnbuckle.config import load
from turnbuckle.vocab.ids import PROTOCOL_NAMES

_HEAD = """# Settings of turnbuckle, written by `turnbuckle init`. `turnbuckle doctor` explains what is in effect.
# Every key: docs/configuration.md
"""  # noqa: E501


class Chosen(Struct, frozen=True):
    """What goes into the file. `api_key` is `env:NAME`, or the key itself if that was wished; empty for
    none."""

    preset: str = ""
    protocol: str = ""
    base_url: str = ""
    api_key: str = ""
    model: str = ""
    workspace: str = "."
    shell: str = "ask"

    def route(self) -> dict[str, str]:
        """The route as the settings have it."""
        fields = ("preset", "protocol", "base_url", "api_key", "model")
        return {name: value for name in fields if (value := getattr(self, name))}


def text_of(chosen: Chosen) -> str:
    """The whole file."""
    lines = [
        _HEAD,
        f"workspace = {_quoted(chosen.workspace)}  # where file and shell tools act",
        "",
        "[[routes]]",
    ]
    notes = {
        "preset": "where it is and what it speaks",
        "protocol": f"{', '.join(PROTOCOL_NAMES)} or rehearsal",
        "api_key": "from the environment: the key itself is not in this file"
        if chosen.api_key.startswith("env:")
        else "the key itself: keep this file to yourself",
        "base_url": "",
        "model": "",
    }
    for name, value in chosen.route().items():
        lines.append(f"{name} = {_quoted(value)}{f'  # {notes[name]}' if notes[name] else ''}")
    lines += [
        "",
        "# More routes are fallbacks, in their order:",
        "# [[routes]]",
        '# preset = "ollama"',
        '# model = "a-model-of-yours"',
        "",
        "[tools.approval]  # allow, ask or deny, by tool and by pattern",
        f"shell = {_quoted(chosen.shell)}",
        "",
    ]
    return "\n".join(lines)


def write(path: Path, text: str, *, is_secret: bool = False) -> Path | None:
    """Write the file, after a look whether it can be read. What was there is kept beside it, and its place
    returned. Raises ConfigError."""
    return replace_file(path, text, is_secret=is_secret, check=lambda made: load(made, environment={}))


def _quoted(text: str) -> str:
    """A TOML string. JSON's are a part of them."""
    return msgspec.json.encode(text).decode()
