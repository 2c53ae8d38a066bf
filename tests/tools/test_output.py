"""Output with a limit, and secrets that stay inside."""

from pathlib import Path

import pytest

from turnbuckle.tools import output
from turnbuckle.tools.output import Capture, Decoded, LiveLines, kept_path

TEXT = "".join(chr(97 + number % 26) for number in range(400))


@pytest.mark.parametrize("size", [1, 3, 7, 50, 99, 100, 101, 400])
@pytest.mark.parametrize("length", [0, 1, 49, 50, 51, 99, 100, 101, 150, 400])
def test_head_and_tail_are_the_same_however_the_text_comes(tmp_path: Path, size: int, length: int):
    text = TEXT[:length]
    with Capture(100, tmp_path / "kept" / "x.txt") as capture:
        for at in range(0, length, size):
            capture.add(text[at : at + size])
    assert capture.total == length
    if length <= 100:
        assert (capture.text, capture.kept_at) == (text, None)
        return
    assert capture.text == f"{text[:50]}\n[… {length - 100} characters left out …]\n{text[-50:]}"
    assert capture.kept_at is not None
    assert capture.kept_at.read_text() == text


def test_the_kept_file_has_a_cap_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "FILE_CAP", 200)
    with Capture(100, tmp_path / "x.txt") as capture:
        for _ in range(100):
            capture.add("0123456789")
    assert (
        tmp_path / "x.txt"
    ).read_text() == "0123456789" * 20 + "\n[the file ends here, after 200 characters]\n"
    assert "900 characters left out" in capture.text


def test_many_tiny_pieces_are_joined(tmp_path: Path):
    with Capture(100_000, tmp_path / "x.txt") as capture:
        for _ in range(60_000):
            capture.add("x")
        assert len(capture._tail) <= output.MAX_PIECES
    assert capture.text == "x" * 60_000


def test_a_kept_file_has_one_place_per_key_inside_its_folder(tmp_path: Path):
    assert kept_path(tmp_path, "run:1", "shell") == kept_path(tmp_path, "run:1", "shell")
    assert kept_path(tmp_path, "run:1", "shell") != kept_path(tmp_path, "run:2", "shell")
    assert kept_path(tmp_path, "../../x", "../../y").parent == tmp_path


def test_live_output_goes_out_by_whole_lines():
    heard: list[str] = []
    live = LiveLines(heard.append)
    for piece in ("a be", "ginning b\nnext", " line", "\nend"):
        live.add(piece)
    assert heard == ["a beginning b\n", "next line\n"]
    live.close()
    assert heard[-1] == "end"


def test_live_output_ends_at_its_cap_and_says_so():
    heard: list[str] = []
    live = LiveLines(heard.append)
    for _ in range(100):
        live.add("x" * 9_999 + "\n")
    live.close()
    assert sum(map(len, heard)) < output.LIVE_CAP + 100
    assert heard[-1].endswith("[more is not shown live]\n")


def test_characters_split_between_reads_are_put_together():
    data = "größe €🙂".encode()
    decoded = Decoded()
    assert "".join(decoded.add(data[at : at + 1]) for at in range(len(data))) + decoded.close() == "größe €🙂"
