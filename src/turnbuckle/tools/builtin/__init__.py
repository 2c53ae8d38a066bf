"""The tools that every run has, in the order in which the model sees them."""

from turnbuckle.tools.builtin.ask import ask_user
from turnbuckle.tools.builtin.edit import edit_file
from turnbuckle.tools.builtin.files import append_file, list_files, read_file, write_file
from turnbuckle.tools.builtin.processes import read_process, stop_process
from turnbuckle.tools.builtin.recall import recall
from turnbuckle.tools.builtin.search import search_files
from turnbuckle.tools.builtin.shell import shell
from turnbuckle.tools.builtin.web import fetch_url
from turnbuckle.tools.spec import Tool

FAMILIES: dict[str, tuple[Tool, ...]] = {
    "files": (read_file, write_file, append_file, edit_file, list_files, search_files),
    "shell": (shell, read_process, stop_process),
    "web": (fetch_url,),
    "ask": (ask_user,),
    "recall": (recall,),
}
"""By the names that the configuration uses."""

BUILT_IN: tuple[Tool, ...] = tuple(one for family in FAMILIES.values() for one in family)
