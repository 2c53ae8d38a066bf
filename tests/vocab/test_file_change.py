"""The diff of a file: a unified one that puts the new content together again, bounded whatever it is made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.vocab.file_change import (
    MOST_CHARACTERS,
    MOST_LINES,
    FileChange,
    TouchedFile,
    counts,
    diff_of,
    mark_of,
    touched,
)

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "x\r"]), max_size=30)


def applied(before: str, diff: str) -> str:
    """What a patch program makes of it."""
    old = before.split("\n")
    made: list[str] = []
    at = 0
    ends = True
    for line in diff.split("\n"):
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (0 if count == "0" else 1)
            made += old[at:first]
            at = first
        elif line.startswith("\\"):
            ends = False
        elif line[0] in " -":
            at += 1
            made += [line[1:]] if line[0] == " " else []
            ends = True
        else:
            made.append(line[1:])
            ends = True
    rest = old[at:]
    return "\n".join([*made, *rest]) if rest else "\n".join(made) + ("\n" if ends and made else "")


@pytest.mark.requirement("H9")
@given(LINES, LINES)
def test_a_diff_makes_the_new_content_of_the_old(old: list[str], new: list[str]):
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    found = diff_of(before.encode(), after.encode())
    if before == after:
        assert (found.text, found.note) == ("", "nothing changes")
    else:
        assert applied(before, found.text) == after
        assert len(new) - len(old) == found.added - found.removed


@pytest.mark.requirement("H9")
@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, b"one\ntwo\n", "@@ -0,0 +1,2 @@\n+one\n+two"),
        (b"one\n", b"", "@@ -1 +0,0 @@\n-one"),
        (b"one", b"one\n", "@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+one"),
        (b"one\r\n", b"one\n", "@@ -1 +1 @@\n-one\r\n+one"),
        ("ä\n".encode(), "ö\n".encode(), "@@ -1 +1 @@\n-ä\n+ö"),
    ],
    ids=["new file", "emptied", "no newline at its end", "line ends", "other letters"],
)
def test_kinds_of_changes_have_the_usual_form(before: bytes | None, after: bytes, text: str):
    assert diff_of(before, after).text == text


@pytest.mark.requirement("H9")
@pytest.mark.parametrize("content", [b"\0\1\2", b"\xff\xfe", "ä".encode("latin-1")])
def test_what_is_no_text_is_told_by_its_size(content: bytes):
    found = diff_of(b"text\n", content)
    assert (found.text, found.note) == ("", f"not a text: 5 bytes before, {len(content)} bytes after")


@pytest.mark.requirement("H9")
def test_a_huge_diff_is_cut_and_says_so_and_its_counts_are_whole():
    before = "".join(f"old {number}\n" for number in range(30_000)).encode()
    after = "".join(f"new {number}\n" for number in range(30_000)).encode()
    found = diff_of(before, after)
    assert (found.added, found.removed) == (30_000, 30_000)
    assert len(found.text.split("\n")) == MOST_LINES
    assert found.note == f"{60_001 - MOST_LINES:,} more lines of the diff are not shown"
    one = diff_of(b"", b"x" * 1_000_000)
    assert len(one.text) <= MOST_CHARACTERS + 20


@pytest.mark.requirement("H9")
def test_a_change_in_the_midst_of_a_large_file_is_found_whatever_surrounds_it():
    lines = [f"line {number % 7}\n" for number in range(50_000)]
    before = "".join(lines).encode()
    lines[25_000] = "another\n"
    found = diff_of(before, "".join(lines).encode())
    assert (found.added, found.removed) == (1, 1)
    assert "+another" in found.text


@pytest.mark.requirement("H9")
def test_the_files_of_a_run_are_told_from_before_it_to_behind_it():
    a, b, c = (mark_of(text) for text in (b"a", b"b", b"c"))
    one = FileChange("one", "", a, kept=True)
    two = FileChange("one", a, b, kept=True)
    other = FileChange("other", a, c)
    foreign = FileChange("one", c, a, kept=True)
    assert touched([one, other, two]) == (
        TouchedFile("one", "", b, 2, True),
        TouchedFile("other", a, c, 1, False),
    )
    assert touched([one, two, foreign]) == (TouchedFile("one", c, a, 3, True),)
    assert counts(FileChange("x", added=1_200, removed=3)) == "+1,200 −3"
