"""Whether changes to a folder can be seen and taken back by version control."""

from pathlib import Path


def in_git_work_tree(folder: Path) -> bool:
    """Whether a folder, or one above it, is the top of a git work tree."""
    top = folder.resolve()
    return any(_is_top(place / ".git") for place in (top, *top.parents))


def _is_top(git: Path) -> bool:
    """A folder with a HEAD, or the file that a linked work tree has in its place."""
    try:
        return git.is_file() or (git / "HEAD").is_file()
    except OSError:
        return False
