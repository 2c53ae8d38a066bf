"""Inline reasoning is taken out of the text, wherever the chunks are cut."""

from itertools import combinations, pairwise, product

import pytest

from turnbuckle.wire.think import ThinkSplitter

TEXTS = [
    pytest.param("<think>a</think>b", "b", "a", id="a tag and text"),
    pytest.param("\n <think>\n a\n</think>\n\nb\n", "b\n", "a\n", id="white space around the tags"),
    pytest.param("x <think>a</think> y", "x <think>a</think> y", "", id="a tag in mid-text is text"),
    pytest.param(
        "It opens with <think> and so on", "It opens with <think> and so on", "", id="a tag is talked about"
    ),
    pytest.param(
        "x<think>a</think>y</think>\nz",
        "x<think>a</think>y</think>\nz",
        "",
        id="behind such a tag all is text",
    ),
    pytest.param("It ends with </think>.", "It ends with </think>.", "", id="a closing tag is talked about"),
    pytest.param("Say </think> then", "Say </think> then", "", id="a closing tag in a sentence"),
    pytest.param("a\n</think>\n\nb</think>c", "a\nb</think>c", "", id="a closing tag alone counts once"),
    pytest.param("</think>\nb", "b", "", id="a closing tag first of all"),
    pytest.param("<think>a</think>b</think>c", "b</think>c", "a", id="a closing tag too many is text"),
    pytest.param("<think>a<think>b</think>c</think>d", "cd", "a<think>b", id="a tag inside the reasoning"),
    pytest.param(
        "<think>a</think>\n<think>b</think> c", "c", "ab", id="reasoning begins again before any text"
    ),
    pytest.param("<think>a</think><think>b</think>c", "c", "ab", id="two tags"),
    pytest.param("<think>a", "", "a", id="a tag that is never closed"),
    pytest.param("<think></think>b", "b", "", id="nothing inside"),
    pytest.param(
        "<think>a < b </thin k> c</think>d", "d", "a < b </thin k> c", id="what only looks like the end"
    ),
    pytest.param("a</think>b", "ab", "", id="a closing tag alone is not text"),
    pytest.param("a < b and <thin", "a < b and <thin", "", id="what only looks like a tag"),
    pytest.param("<thinker>a</thinker>", "<thinker>a</thinker>", "", id="a longer word is no tag"),
    pytest.param("<thinking>a</thinking>b", "b", "a", id="thinking"),
    pytest.param("<reason>a</reason>b", "b", "a", id="reason"),
    pytest.param("<reasoning>a</reasoning>b", "b", "a", id="reasoning"),
    pytest.param("<thought>a</thought>b", "b", "a", id="thought"),
    pytest.param("<Thought>a</Thought>b", "b", "a", id="Thought"),
    pytest.param("<|begin_of_thought|>a<|end_of_thought|>b", "b", "a", id="begin_of_thought"),
    pytest.param("◁think▷a◁/think▷b", "b", "a", id="triangles"),
    pytest.param("<think>a</thinking>b</think>c", "c", "a</thinking>b", id="a tag is closed by its own kind"),
    pytest.param(
        "x <reason>a</reason>", "x <reason>a</reason>", "", id="an ordinary word opens only at the start"
    ),
    pytest.param("`<think>` is a tag", "`<think>` is a tag", "", id="a tag in code"),
    pytest.param(
        "```\n</think>\n```\n</think>\ny", "```\n</think>\n```\ny", "", id="a closing tag in a fence"
    ),
    pytest.param("<think>`</think>b", "b", "`", id="a backtick inside the reasoning"),
    pytest.param("<<think>a</think>b", "<<think>a</think>b", "", id="an angle bracket before the tag"),
    pytest.param(" \n ", " \n ", "", id="only white space"),
    pytest.param(" " * 100 + "<think>a</think>b", " " * 100 + "b", "a", id="much white space is text"),
    pytest.param("  a", "  a", "", id="white space before text"),
    pytest.param("", "", "", id="nothing"),
]


def _split(pieces, mode="auto"):
    splitter = ThinkSplitter(mode)
    found = [piece for text in pieces for piece in splitter.feed(text)] + splitter.end()
    return tuple("".join(text for kind, text in found if kind == wanted) for wanted in ("text", "reasoning"))


def _cuts(text, count):
    for places in combinations(range(1, len(text)), count):
        ends = (0, *places, len(text))
        yield [text[start:end] for start, end in pairwise(ends)]


def _ways(text):
    """Whole, by characters, and at every one or two places."""
    yield [text]
    yield list(text)
    yield from _cuts(text, 1)
    if len(text) <= 60:
        yield from _cuts(text, 2)


@pytest.mark.requirement("A7", "A16")
@pytest.mark.parametrize("content, text, reasoning", TEXTS)
def test_text_and_reasoning_come_apart_the_same_way_however_they_are_cut(content, text, reasoning):
    for pieces in _ways(content):
        assert _split(pieces) == (text, reasoning), pieces


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "content, text, reasoning",
    [
        ("a\n</think>\nb", "b", "a\n"),
        ("\n a</think>b", "b", "a"),
        ("a", "", "a"),
        ("a</think>b<think>c</think>d", "b<think>c</think>d", "a"),
    ],
)
def test_a_swallowed_opening_tag_is_taken_as_read(content, text, reasoning):
    for pieces in _ways(content):
        assert _split(pieces, "open") == (text, reasoning), pieces


@pytest.mark.parametrize("content", ["<think>a</think>b", "a </think>", " <"])
def test_tags_are_left_alone_where_that_is_asked_for(content):
    for pieces in _ways(content):
        assert _split(pieces, "off") == (content, "")


@pytest.mark.parametrize("word", ["reason", "reasoning", "thought", "Thought"])
def test_ordinary_words_are_text_where_they_do_not_count(word):
    content = f"<{word}>a</{word}>c"
    for pieces in _ways(content):
        splitter = ThinkSplitter(words=False)
        found = [piece for text in pieces for piece in splitter.feed(text)] + splitter.end()
        assert "".join(text for kind, text in found if kind == "text") == f"<{word}>a</{word}>c", pieces


@pytest.mark.parametrize("mode", ["auto", "open"])
def test_every_short_text_is_read_the_same_whole_and_by_characters(mode):
    tokens = ["<think>", "</think>", "<reason>", "<", "`", " ", "a"]
    for length in range(6):
        for chosen in product(tokens, repeat=length):
            content = "".join(chosen)
            whole = _split([content], mode)
            assert _split(content, mode) == whole, content
            assert _split(chosen, mode) == whole, chosen


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("content, text, reasoning", TEXTS)
def test_what_was_shown_before_a_cut_is_the_beginning_of_the_whole(content, text, reasoning):
    splitter = ThinkSplitter()
    shown = {"text": "", "reasoning": ""}
    for character in content:
        for kind, piece in splitter.feed(character):
            shown[kind] += piece
        assert text.startswith(shown["text"])
        assert reasoning.startswith(shown["reasoning"])


def test_no_more_than_the_beginning_of_a_tag_is_held_back():
    splitter = ThinkSplitter()
    assert splitter.feed("ab <thi") == [("text", "ab ")]
    assert splitter.feed("s") == [("text", "<this")]
    assert splitter.plain


def test_plain_text_may_pass_by_the_fast_way_only_when_nothing_is_pending():
    splitter = ThinkSplitter()
    assert not splitter.plain
    splitter.feed("a")
    assert splitter.plain
    splitter.feed("<thi")
    assert not splitter.plain
    splitter.feed("nk>")
    assert splitter.plain
    assert splitter.settled


def test_behind_reasoning_that_was_closed_text_may_pass_as_it_is():
    splitter = ThinkSplitter()
    splitter.feed("<think>a")
    assert not splitter.plain
    splitter.feed("</think>")
    assert not splitter.plain
    splitter.feed("\nc")
    assert splitter.settled
    assert splitter.feed("<think>d</think>") == [("text", "<think>d</think>")]


@pytest.mark.requirement("A16")
@pytest.mark.parametrize(
    "mode, content, unclosed",
    [
        ("auto", "<think>a", "a"),
        ("auto", "<think>a</thi", "a</thi"),
        ("auto", "<think>a</think>\n<thinking>b c", "b c"),
        ("auto", "<think>a</think>b", ""),
        ("auto", "a", ""),
        ("open", "a b", "a b"),
        ("open", "a</think>b", ""),
        ("off", "<think>a", ""),
    ],
)
def test_reasoning_that_is_never_closed_is_known_as_that(mode, content, unclosed):
    for pieces in _ways(content):
        splitter = ThinkSplitter(mode)
        for piece in pieces:
            splitter.feed(piece)
        splitter.end()
        assert splitter.unclosed == unclosed, pieces


def test_backticks_that_passed_by_the_fast_way_still_count():
    splitter = ThinkSplitter()
    splitter.feed("see ")
    splitter.count_code("`a")
    assert splitter.feed("</think>\n") == [("text", "</think>\n")]


def test_many_tags_in_one_delta_are_found_in_one_pass():
    text = "<think>a</think>" * 20_000 + "`</think>`" * 20_000 + "b"
    assert _split([text]) == ("`</think>`" * 20_000 + "b", "a" * 20_000)
