"""Rules of consent hold where a path leads, whatever it looks like."""

from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.turn.consent import written

RULES = {
    "write_file": "ask",
    "write_file:docs/*": "allow",
    "read_file:secrets/*": "deny",
    "append_file:src/*": "deny",
}


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    box = Toolbox(tmp_path, consent=written(RULES))
    for folder in ("docs", "secrets", "src/deep"):
        (box.workspace / folder).mkdir(parents=True)
    (box.workspace / "secrets/key").write_text("the secret word\n")
    (box.workspace / "open.txt").write_text("an open word\n")
    (box.workspace / "docs/link").symlink_to("../src/deep")
    (box.workspace / "s").symlink_to("secrets")
    return box


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("path", ["docs/link/a", "docs/link/../a"])
def test_a_link_does_not_write_under_an_allowing_rule(box: Toolbox, path: str):
    outcome = box.do("write_file", path=path, content="x")
    assert (outcome.status, "needs the consent of a person" in outcome.text) == ("failed", True)
    assert [file for file in (box.workspace / "src").rglob("*") if file.is_file()] == []
    assert box.do("write_file", path="docs/a", content="x").status == "finished"


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("path", ["s/key", "docs/link/../../secrets/key", "docs/link/../../s/key"])
def test_a_link_does_not_read_past_a_denying_rule(box: Toolbox, path: str):
    outcome = box.do("read_file", path=path)
    assert (outcome.status, "do not allow" in outcome.text) == ("failed", True)


@pytest.mark.requirement("R6")
def test_a_link_does_not_append_past_a_denying_rule(box: Toolbox):
    assert "do not allow" in box.do("append_file", path="docs/link/a", content="x").text


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("path", [None, "secrets", "secrets/key", "s"])
def test_what_may_not_be_read_is_not_found_or_listed(box: Toolbox, path: str | None):
    text = box.do("search_files", pattern="word", path=path).text
    assert "the secret word" not in text
    assert ("an open word" in text) is (path is None)
    if path != "secrets/key":
        assert "key" not in box.do("list_files", path=path, pattern="*").text
        assert "key" not in box.do("list_files", path=path).text
