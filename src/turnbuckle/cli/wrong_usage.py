"""What is wrong with a command line, in one line that begins as every other error does."""

import re

from cyclopts import CycloptsError
from cyclopts.exceptions import UnusedCliTokensError

from turnbuckle.cli.echo import echo

_NUMBERS = {"int": "a whole number", "float": "a number"}
_NOT_A_NUMBER = re.compile(
    r'Invalid value for (?P<option>.+): unable to convert (?P<given>".*") into (?P<kind>\w+)\.'
)
_MISSING = re.compile(r'Command ".*" parameter (?P<name>\S+) requires an argument\.')
_COMMANDS = re.compile(r" Available commands: .*", re.S)


def echo_usage(error: CycloptsError) -> None:
    """Say it: the library's words where they are plain, and ours where they speak of Python."""
    words = " ".join(str(error).split())
    command = " ".join(("turnbuckle", *(error.command_chain or ())))
    if isinstance(error, UnusedCliTokensError):
        words = f"{command} does not take {' '.join(error.unused_tokens or ())}."
    elif (found := _NOT_A_NUMBER.fullmatch(words)) and found["kind"] in _NUMBERS:
        words = f"{found['option']}: {found['given']} is not {_NUMBERS[found['kind']]}."
    elif found := _MISSING.fullmatch(words):
        words = f"{found['name']} {'needs a value' if found['name'].startswith('-') else 'is missing'}."
    words = _COMMANDS.sub("", words)
    echo(f"turnbuckle: {words} `{command} --help` lists what there is.", err=True)
