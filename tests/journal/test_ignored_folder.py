"""The data folder keeps itself out of a project's history, and hides nothing that is not its own."""

from pathlib import Path

import pytest

from turnbuckle.journal.sqlite.folder import USUAL, FolderLock


@pytest.mark.parametrize("name", [USUAL, "elsewhere"])
def test_a_new_data_folder_is_ignored_by_git(tmp_path: Path, name: str) -> None:
    FolderLock(tmp_path / name).release()
    assert (tmp_path / name / ".gitignore").read_text() == "*\n"


def test_the_usual_folder_of_before_is_ignored_too_and_what_somebody_wrote_there_stays(
    tmp_path: Path,
) -> None:
    folder = tmp_path / USUAL
    folder.mkdir()
    FolderLock(folder).release()
    assert (folder / ".gitignore").read_text() == "*\n"
    (folder / ".gitignore").write_text("mine\n")
    FolderLock(folder).release()
    assert (folder / ".gitignore").read_text() == "mine\n"


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    FolderLock(tmp_path).release()
    assert not (tmp_path / ".gitignore").exists()
