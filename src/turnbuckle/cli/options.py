"""Options that several commands have, in one wording for all of them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
"""For a command that says itself what its JSON is."""
Json = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="As JSON, for programs.")
]
Config = Annotated[
    Path | None,
    Parameter(help="The settings; turnbuckle.toml in this folder if left out.", show_default=False),
]
Server = Annotated[str, Parameter(help="Ask the server at this address.", show_default=False)]
Key = Annotated[
    str,
    Parameter(help="The key for that server; else TURNBUCKLE_KEY in the environment.", show_default=False),
]
