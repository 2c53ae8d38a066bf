"""The data folder holds all that was said, so it is for its owner alone."""

import stat

import pytest

from turnbuckle.journal.sqlite.folder import FolderLock
from turnbuckle.server.keys import KeyFile


def _lock(folder):
    FolderLock(folder).release()


def _make_a_key(folder):
    KeyFile(folder).create("laptop", "owner", 0.0)


@pytest.mark.parametrize("use", [_lock, _make_a_key])
def test_a_data_folder_that_is_made_is_for_its_owner_alone(use, tmp_path):
    use(tmp_path / "deep" / "data")
    assert stat.S_IMODE((tmp_path / "deep" / "data").stat().st_mode) == 0o700


@pytest.mark.parametrize("use", [_lock, _make_a_key])
def test_a_data_folder_that_was_there_stays_as_its_owner_made_it(use, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o750)
    use(tmp_path / "data")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o750
