"""Nothing leads out of the workspace."""

import os
from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.tools.confine import open_file, place_of
from turnbuckle.tools.spec import ToolError

OUT = [
    "../secret.txt",
    "src/../../secret.txt",
    "link_file",
    "link_folder/secret.txt",
    "src/link_up/secret.txt",
    "chain",
    "link_absolute",
    "link_folder/../secret.txt",
    "link_root/etc/hostname",
]


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    (tmp_path / "secret.txt").write_text("secret words")
    box = Toolbox(tmp_path)
    root = box.workspace
    (root / "src").mkdir()
    (root / "src/a.txt").write_text("inside words")
    (root / "link_file").symlink_to("../secret.txt")
    (root / "link_folder").symlink_to("..")
    (root / "src/link_up").symlink_to("../..")
    (root / "chain").symlink_to("link_file")
    (root / "link_absolute").symlink_to(tmp_path / "secret.txt")
    (root / "link_root").symlink_to("/")
    return box


CALLS = [
    ("read_file", {}),
    ("write_file", {"content": "x"}),
    ("append_file", {"content": "x"}),
    ("edit_file", {"old": "secret", "new": "public"}),
    ("list_files", {}),
    ("search_files", {"pattern": "secret"}),
]


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("path", OUT)
@pytest.mark.parametrize("name, arguments", CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_no_file_tool_leaves_the_workspace(
    box: Toolbox, tmp_path: Path, name: str, arguments: dict[str, str], path: str
):
    outcome = box.do(name, path=path, **arguments)
    assert outcome.status == "failed"
    assert "workspace" in outcome.text
    assert "secret words" not in outcome.text
    assert (tmp_path / "secret.txt").read_text() == "secret words"


@pytest.mark.requirement("D7")
def test_absolute_paths_work_only_inside(box: Toolbox, tmp_path: Path):
    assert box.do("read_file", path=str(box.workspace / "src/a.txt")).text == "inside words"
    assert "outside the workspace" in box.do("read_file", path=str(tmp_path / "secret.txt")).text
    assert "outside the workspace" in box.do("write_file", path=str(tmp_path / "new.txt"), content="x").text
    assert not (tmp_path / "new.txt").exists()


def test_a_workspace_that_is_itself_a_link_works(box: Toolbox, tmp_path: Path):
    (tmp_path / "alias").symlink_to(box.workspace)
    box.with_settings(workspace=tmp_path / "alias")
    assert box.do("read_file", path="src/a.txt").text == "inside words"
    assert box.do("read_file", path=str(tmp_path / "alias/src/a.txt")).text == "inside words"
    assert box.do("read_file", path="link_file").status == "failed"


def test_links_inside_the_workspace_are_followed(box: Toolbox):
    (box.workspace / "near").symlink_to("src/a.txt")
    (box.workspace / "far").symlink_to(box.workspace / "src")
    (box.workspace / "src/up").symlink_to("..")
    assert box.do("read_file", path="near").text == "inside words"
    assert box.do("read_file", path="far/a.txt").text == "inside words"
    assert box.do("read_file", path="src/up/src/a.txt").text == "inside words"
    box.do("write_file", path="near", content="changed")
    assert (box.workspace / "near").is_symlink()
    assert (box.workspace / "src/a.txt").read_text() == "changed"


def test_a_ring_of_links_ends(box: Toolbox):
    (box.workspace / "one").symlink_to("two")
    (box.workspace / "two").symlink_to("one")
    assert "too many links" in box.do("read_file", path="one").text


@pytest.mark.requirement("D7")
def test_a_link_that_is_made_between_look_and_use_is_not_followed(box: Toolbox):
    with place_of(box.context, "src/a.txt") as place:
        (box.workspace / "src/a.txt").unlink()
        (box.workspace / "src/a.txt").symlink_to("../../secret.txt")
        with pytest.raises(ToolError, match="became a link"):
            open_file(place)


@pytest.mark.requirement("D7")
def test_a_folder_that_is_swapped_for_a_link_on_the_way_does_not_lead_out(box: Toolbox, tmp_path: Path):
    with place_of(box.context, "src/new.txt") as place:
        os.rename(box.workspace / "src", box.workspace / "moved")
        (box.workspace / "src").symlink_to("..")
        with open(os.open(place.name, os.O_WRONLY | os.O_CREAT, dir_fd=place.folder), "w") as file:
            file.write("x")
    assert (box.workspace / "moved/new.txt").read_text() == "x"
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.requirement("D7")
def test_folders_are_not_made_outside(box: Toolbox, tmp_path: Path):
    assert box.do("write_file", path="link_folder/made/a.txt", content="x").status == "failed"
    assert not (tmp_path / "made").exists()


def test_the_data_folder_is_no_part_of_the_workspace(tmp_path: Path):
    box = Toolbox(tmp_path)
    data = box.workspace / ".turnbuckle"
    (data / "kept").mkdir(parents=True)
    (data / "journal.db").write_text("needle")
    (data / "kept/out.txt").write_text("kept needle")
    (box.workspace / "alias").symlink_to(".turnbuckle")
    box.with_settings(data=data)
    for path in (
        ".turnbuckle/journal.db",
        "alias/journal.db",
        ".turnbuckle/kept/../journal.db",
        ".turnbuckle",
    ):
        for name, arguments in CALLS:
            assert "data folder" in box.do(name, path=path, **arguments).text, (name, path)
    assert box.do("read_file", path=".turnbuckle/kept/out.txt").text == "kept needle"
    assert "data folder" in box.do("write_file", path=".turnbuckle/kept/out.txt", content="x").text
    assert box.do("list_files").text == "alias -> .turnbuckle"
    assert box.do("list_files", pattern="*").text == "No file fits."
    assert "needle" not in box.do("search_files", pattern="needle").text


def test_a_kept_output_is_no_way_out(tmp_path: Path):
    box = Toolbox(tmp_path)
    (box.data / "kept").mkdir()
    (box.data / "kept/link").symlink_to("../../secret.txt")
    (tmp_path / "secret.txt").write_text("secret words")
    outcome = box.do("read_file", path=str(box.data / "kept/link"))
    assert outcome.status == "failed"
