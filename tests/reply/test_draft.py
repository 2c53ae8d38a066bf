"""Drafts: what a cut call leaves, for a cut at every character."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft, NoDraft, absent, draft_of, grown, tail, text_argument
from turnbuckle.reply.splice import Spliced, SpliceRefused, choose, splice
from turnbuckle.vocab.arguments import scan_object
from turnbuckle.vocab.ids import DraftId

D1 = DraftId("d1")
ARGUMENT_TEXTS = [
    '{"path":"a.txt","content":"line 1\\nline 2\\n\\ttab \\"quoted\\" back\\\\slash \\/ \\b\\f\\r end"}',
    '{"content":"first argument\\nof two","path":"b.txt"}',
    '{"content":"only"}',
    '{"path":"c","content":""}',
    '{"path":"ü.txt","content":"\\u00e9\\u4e2d\\u6587 raw é中文 \\ud83d\\ude00\\ud83d\\ude80 raw 😀🚀 \\u2028"}',
    '{"content":"\\ud83d\\ude00"}',
    '{"content":"\\\\ud83d not an emoji \\\\"}',
    ' {\n  "options" : {"mode": [1, 2.5, -3e2, {"content": "nested, not it"}], "deep": {}},\n'
    '  "count": 12, "dry": true, "none": null,\n  "content" : "x = {\\"a\\": [1]}\\n",\n  "last" : 10\n }\n',
    '{"content":"a\\nb","overwrite":false,"mode":"0644","tags":["x","y"],"size":100}',
    '{"path":"rows.txt","content":"--------\\n--------\\n--------\\n--------\\n--------\\n"}',
    '{"path":"twice.txt","content":"Head\\nthe same line of more than twenty\\nthe same line of more than twenty\\n"}',
]


def true_rest(draft: Draft, truth: dict[str, Any]) -> dict[str, Any]:
    """What a model that knows the truth would send as `also`."""
    return {key: value for key, value in truth.items() if key != draft.argument and key not in draft.settled}


@pytest.mark.requirement("B8")
@pytest.mark.parametrize("arguments", ARGUMENT_TEXTS)
def test_a_cut_at_every_character_gives_a_true_draft_that_can_be_finished_exactly(arguments: str) -> None:
    truth = json.loads(arguments)
    drafts = 0
    longest = 0
    for length in range(len(arguments.rstrip())):
        draft = draft_of("write_file", arguments[:length], "content", D1)
        if isinstance(draft, NoDraft):
            assert draft.kind == "not_begun"
            assert not drafts
            continue
        drafts += 1
        assert truth["content"].startswith(draft.text)
        assert len(draft.text) >= longest, "a longer part never gives a shorter draft"
        longest = len(draft.text)
        assert draft.settled == {key: truth[key] for key in draft.settled}
        assert draft.closed <= (draft.text == truth["content"])
        rest = truth["content"][len(draft.text) :]
        done = splice(draft, tail(draft), rest, False, true_rest(draft, truth))
        if isinstance(done, SpliceRefused) and done.doubtful is not None:  # a text that repeats itself
            done = choose(replace(draft, doubtful=done.doubtful), "a")
        assert isinstance(done, Spliced), done
        assert done.arguments == truth
        assert json.loads(done.arguments_text) == truth
    assert drafts
    assert longest == len(truth["content"])


@pytest.mark.requirement("B8")
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30), st.booleans(), st.booleans())
def test_any_text_cut_anywhere_is_a_prefix_of_the_truth(content: str, ascii_only: bool, first: bool) -> None:
    truth = (
        {"content": content, "path": "p", "n": 10} if first else {"path": "p", "n": 10, "content": content}
    )
    arguments = json.dumps(truth, ensure_ascii=ascii_only)
    for length in range(len(arguments)):
        draft = draft_of("write_file", arguments[:length], "content", D1)
        if isinstance(draft, Draft):
            assert content.startswith(draft.text)
            assert draft.settled.items() <= truth.items()


@pytest.mark.parametrize(
    "received, text",
    [
        ('{"content":"', ""),
        ('{"content":"ab', "ab"),
        ('{"content":"ab\\', "ab"),
        ('{"content":"ab\\u', "ab"),
        ('{"content":"ab\\u12', "ab"),
        ('{"content":"ab\\u00e9', "abé"),
        ('{"content":"ab\\ud83d', "ab"),
        ('{"content":"ab\\ud83d\\', "ab"),
        ('{"content":"ab\\ud83d\\ude0', "ab"),
        ('{"content":"ab\\ud83d\\ude00', "ab😀"),
        ('{"content":"ab\\\\', "ab\\"),
        ('{"content":"ab\\\\ud83d', "ab\\ud83d"),
        ('{"content":"ab\\n', "ab\n"),
    ],
)
def test_an_escape_or_a_pair_that_was_cut_is_not_part_of_the_text(received: str, text: str) -> None:
    draft = draft_of("write_file", received, "content", D1)
    assert draft == Draft(D1, "write_file", "content", text)


@pytest.mark.parametrize(
    "received, kind",
    [
        ("", "not_begun"),
        ("{", "not_begun"),
        ('{"path":"a', "not_begun"),
        ('{"path":"a","cont', "not_begun"),
        ('{"path":"a","content"', "not_begun"),
        ('{"path":"a","content":', "not_begun"),
        ('{"nested":{"content":"abc', "not_begun"),
        ('{"content":"abc","content":', "not_begun"),
        ('{"content":12', "not_text"),
        ('{"content":["abc', "not_text"),
        ('{"content":null,"path":"a', "not_text"),
        ('{"content":"abc"}', "whole"),
        ('{"path":"a"}', "whole"),
        ("{} ", "whole"),
        ('{"content":"abc"} x', "malformed"),
        ('{"content":"abc" "d', "malformed"),
        ('{"content":"raw \n line', "malformed"),
        ('{"content":"\\x', "malformed"),
        ('{"content":"half \\ud83d and more', "malformed"),
        ('{"content":"half \\udc00', "malformed"),
        ('{"content":"half \\ud83d","path":"a', "malformed"),
        ('{"n":1e999,"content":"abc', "malformed"),
        ('{"\\ud83d":1,"content":"abc', "malformed"),
        ('["content', "malformed"),
        ("Here is the file:", "malformed"),
    ],
)
def test_no_draft_says_why(received: str, kind: str) -> None:
    found = draft_of("write_file", received, "content", D1)
    assert isinstance(found, NoDraft)
    assert found.kind == kind
    assert found.why


@pytest.mark.parametrize(
    "behind, settled, closed, lost",
    [
        ("", {}, True, None),
        (" ", {}, True, None),
        (",", {}, True, ""),
        (', "', {}, True, ""),
        (',"over', {}, True, "over"),
        (',"overwrite"', {}, True, "overwrite"),
        (',"overwrite":', {}, True, "overwrite"),
        (',"overwrite":tr', {}, True, "overwrite"),
        (',"overwrite":true', {}, True, "overwrite"),
        (',"overwrite":true ', {"overwrite": True}, True, None),
        (',"mode":1', {}, True, "mode"),
        (',"mode":1,', {"mode": 1}, True, ""),
        (',"mode":{"a":[1', {}, True, "mode"),
        (',"mode":"0644"', {"mode": "0644"}, True, None),
        (',"content":"again', {}, False, None),
        (',"content_type', {}, True, "content_type"),
        (',"content', {}, True, "content"),
    ],
)
def test_behind_a_closed_text_the_draft_says_what_was_lost(
    behind: str, settled: dict[str, Any], closed: bool, lost: str | None
) -> None:
    draft = draft_of("write_file", '{"content":"abc"' + behind, "content", D1)
    assert isinstance(draft, Draft)
    assert (draft.settled, draft.closed, draft.lost) == (settled, closed, lost)
    assert draft.text == ("again" if "again" in behind else "abc")


def test_a_member_that_is_said_again_and_cut_is_not_settled() -> None:
    draft = draft_of("write_file", '{"path":"x","content":"abc","path":"y', "content", D1)
    assert isinstance(draft, Draft)
    assert (draft.settled, draft.lost) == ({}, "path")


def test_a_member_that_is_said_twice_counts_as_it_was_said_last() -> None:
    draft = draft_of("write_file", '{"path":"x","path":"y","content":"abc', "content", D1)
    assert isinstance(draft, Draft)
    assert draft.settled == {"path": "y"}


def test_a_draft_has_a_tail_to_show_and_knows_what_is_absent() -> None:
    draft = Draft(D1, "write_file", "content", "x" * 1_000 + "end", {"path": "a"})
    assert tail(draft) == "x" * 397 + "end"
    assert tail(draft, 3) == "end"
    assert tail(draft, 0) == ""
    assert absent(draft, {"path": {}, "content": {}, "overwrite": {}, "mode": {}}) == ("overwrite", "mode")


def test_a_draft_can_be_built_again_from_its_steps() -> None:
    draft = Draft(D1, "write_file", "content", "abcdef", {"path": "a"})
    assert grown(grown(draft, 6, "ghi"), 4, "X") == Draft(D1, "write_file", "content", "abcdX", {"path": "a"})


@pytest.mark.parametrize(
    "arguments, chosen",
    [
        ('{"a": "x', "a"),
        ('{"path": "p.txt", "body": "the beginning', "body"),
        ('{"old": "a much longer text than the other", "new": "being wri', "new"),
        ('{"body": "a long text that is closed", "path": "p.t', "body"),  # the other has hardly begun
        ('{"body": "a long text", "n": 1', "body"),
        ('{"short": "x", "long": "xyz", "n": [', "long"),
        ('{"short": "x", "long": "xyz"', "long"),
        ('{"n": 1, "list": ["a long text inside a list', ""),
        ('{"nested": {"text": "a long text inside an object', ""),
        ('{"name', ""),
        ("{", ""),
        ("", ""),
        ("not json", ""),
    ],
)
def test_the_text_that_was_being_written_is_the_one_to_keep(arguments: str, chosen: str) -> None:
    assert text_argument(arguments) == chosen


@given(st.text('{}":,\\u0d8c ab1[]', max_size=20))
def test_no_text_makes_a_draft_raise(text: str) -> None:
    found = draft_of("write_file", '{"a":"' + text, "a", D1)
    if isinstance(found, Draft):
        assert scan_object('{"a":"' + text).status == "cut"
        found.text.encode()
