"""Files of the workspace for own tools: read one, write one, find out after a crash whether it was written.

Paths are walked as those of the built-in file tools are, so no link leads out of the workspace. A file
appears whole or not at all. The note that `was_written` looks for belongs to the call, so one call writes one
file.
"""

from turnbuckle.tools.atomic import replaced, write_file_whole
from turnbuckle.tools.builtin.files import LARGEST_READ, read_bytes
from turnbuckle.tools.confine import place_of
from turnbuckle.tools.spec import ProbeAnswer, ToolContext


def read_text(context: ToolContext, path: str) -> str:
    """A text of the workspace. Raises ToolError."""
    with place_of(context, path, reading=True) as place:
        return read_bytes(place, LARGEST_READ).decode("utf-8", "replace")


def write_text(context: ToolContext, path: str, text: str) -> None:
    """Write a file, in place of what was there. Raises ToolError, and then the file is as it was."""
    data = text.encode("utf-8", "replace")
    with place_of(context, path, make_folders=True) as place:
        write_file_whole(context, place, data)


def was_written(context: ToolContext, path: str) -> ProbeAnswer:
    """For a probe: whether `write_text` of this very call was done."""
    return replaced(context, path)
