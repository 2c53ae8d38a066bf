"""The rest of a cut text, given as plain words: joined where that is proved, refused everywhere else."""

import pytest

from turnbuckle.reply.rest import Unfit, anchored, fault, fence_for, join, line_end, word_end

CODE = "".join(f"def part_{number}(value):\n    return value + {number}\n\n\n" for number in range(8))
KEPT = CODE[: CODE.index("part_5") + 3]  # inside a line
PLACE = anchored(KEPT)
REST = CODE[len(line_end(KEPT).kept) :]
BEHIND = CODE[len(PLACE.kept) :]


def test_a_text_is_kept_up_to_its_last_whole_line_or_word():
    assert (line_end("one\ntwo thr").kept, line_end("one\ntwo thr").back) == ("one\n", "two thr")
    assert (line_end("one two thr").kept, line_end("one two thr").back) == ("one two ", "thr")
    assert (word_end("The wav").kept, word_end("The wav").back) == ("The", " wav")
    assert (word_end("The ").kept, word_end("The ").back) == ("The", " ")
    assert word_end("The").kept == ""


def test_an_anchor_is_a_line_that_stands_only_once():
    assert PLACE.anchor == "    return value + 4"
    assert PLACE.kept + PLACE.back == KEPT
    assert anchored("x\nx\nx\n") is None
    assert anchored("no line end") is None


def test_a_fence_is_longer_than_any_in_the_text():
    assert fence_for("plain") == "```"
    assert fence_for("a\n```py\nb\n```\n") == "````"


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    "way, answer",
    [
        ("prefill", f"{REST}```"),
        ("prefill", f"{REST}```\nThat is all."),
        ("prefill", f"```\n{line_end(KEPT).kept}{REST}```"),
        ("prefill", f"{line_end(KEPT).kept}{REST}```"),
        ("whole", f"```\n{CODE}```"),
        ("whole", f"Here it is:\n```python\n{CODE}```\nBye."),
        ("anchored", f"```\n{PLACE.anchor}\n{BEHIND}```"),
        ("anchored", f"```python\ndef part_4(value):\n{PLACE.anchor}\n{BEHIND}```"),
        ("anchored", f"{PLACE.anchor}\n{BEHIND}"),
    ],
    ids=[
        "goes on",
        "and talks",
        "echoes with its fence",
        "echoes",
        "whole",
        "whole with words",
        "anchor",
        "more lines",
        "no fence",
    ],
)
def test_an_answer_that_proves_its_place_is_joined(way, answer):
    assert join(KEPT, way, answer, ended=True) == CODE


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    "way, answer",
    [
        ("prefill", REST),
        ("prefill", "I am sorry, I cannot.\n```"),
        ("prefill", f"{REST[3:]}```"),
        ("prefill", "```"),
        ("prefill", f"[Runtime] go on\n{REST}```"),
        ("whole", CODE),
        ("whole", f"```\n{CODE[:60]}```"),
        ("whole", "```\n" + "print('something else')\n" * 40 + "```"),
        ("whole", f"```\n{CODE}"),
        ("whole", f"```\n{CODE.replace(chr(10) * 3, chr(10) * 2)}```"),  # empty lines that had arrived
        ("whole", f"```\n{CODE.replace('value + 1', 'value + 9')}```"),
        ("whole", f"```\n{CODE.replace('    return', '  return')}```"),
        ("anchored", f"```\n{BEHIND}```"),
        ("anchored", f"```\n{PLACE.anchor}\n{PLACE.anchor}\n{BEHIND}```"),
        ("anchored", f"```\nimport os\n{PLACE.anchor}\n{BEHIND}```"),
        ("anchored", f"```\n{PLACE.anchor}\ndef quite_another():\n    pass\n```"),
        ("anchored", f"```\n{PLACE.anchor}\n```"),
        ("anchored", (PLACE.anchor + BEHIND).replace("\n", "\\n")),
        ("anchored", f"<<<{PLACE.anchor}>>>\n{BEHIND}"),
    ],
)
def test_any_other_answer_is_refused(way, answer):
    assert isinstance(join(KEPT, way, answer, ended=True), Unfit)


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    "way, begin",
    [("prefill", ""), ("whole", f"```\n{line_end(KEPT).kept}"), ("anchored", f"```\n{PLACE.anchor}\n\n\n")],
)
def test_an_answer_that_was_cut_brings_what_is_certain_and_nothing_wrong(way, begin):
    for end in range(len(REST)):
        got = join(KEPT, way, begin + REST[:end], ended=False)
        if not isinstance(got, Unfit):
            assert CODE.startswith(got)
            assert got.startswith(KEPT)


@pytest.mark.parametrize(
    "name, kept, whole, wrong",
    [
        ("a.py", KEPT, CODE, False),
        ("a.py", KEPT, f"{KEPT}(value):\n    return (1\n", True),
        ("a.py", KEPT, f"{KEPT}(value):\n", True),
        ("a.py", "def (:\n", "def (:\nx = 1\n", False),
        ("a.json", '{"a": 1', '{"a": 1}', False),
        ("a.json", '{"a": 1', '{"a": 1, ', True),
        ("a.html", "<html><body><p>x", "<html><body><p>x<br></body></html>", False),
        ("a.html", "<html><body><div>x", "<html><body><div>x</body></html>", True),
        ("a.toml", "[a]\nb = [1,", "[a]\nb = [1, 2]\n", False),
        ("a.toml", "[a]\nb = [1,", "[a]\nb = [1, 2\n", True),
        ("a.md", "```py\nx", "```py\nx = 1\n```\n", False),
        ("a.md", "```py\nx", "```py\nx = 1\n", True),
        ("a.csv", "a,b\n1,2\n3", "a,b\n1,2\n3,4\n", False),
        ("a.csv", "a,b\n1,2\n3", "a,b\n1,2\n3\n", True),
        ("a.csv", "a,b\n1\n", "a,b\n1\n3\n", False),  # rows of any length are its habit
        ("a.js", "f(() => {\n", "f(() => {\n  say('}');\n});\n", False),
        ("a.js", "f(() => {\n", "f(() => {\n  say('{');\n});\n", False),
        ("a.ts", "class A {\n", "class A {\n  b() { return 1; }\n", True),
        ("a.rs", "fn f<'a>", "fn f<'a>(x: &'a str) -> &'a str { x }\n", False),
        ("a.css", "a {\n", "a {\n  color: red;\n", True),
        ("a.txt", "one\n", "one\n... rest of the code\n", True),
        ("a.txt", "one\n", "one\n# ...\n", True),
        ("a.txt", "one\n", "one\ntwo\n", False),
        ("", "one\n", "one\ntwo\n", False),
    ],
)
def test_what_can_be_seen_of_a_whole_text_is_looked_at(name, kept, whole, wrong):
    assert bool(fault(name, kept, whole)) == wrong
