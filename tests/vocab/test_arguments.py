"""Argument text: whole, cut or malformed, for every prefix and for damaged text."""

import json
import string
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnbuckle.vocab.arguments import judge, scan_object, split_objects

WHOLE = [
    "{}",
    " {\n\t}\r\n",
    '{"a":1}',
    '{"a":-0.5e+10,"b":12,"c":1E5,"d":0,"e":-7}',
    '{"path":"a.txt","content":"line 1\\nline 2\\t\\"quoted\\" \\\\ \\/ \\b\\f\\r"}',
    '{"emoji":"\\ud83d\\ude00 and 😀","ö":"\\u00e9","":"empty key"}',
    '{"a":[1,[2.5,{"b":[]},{}],null,true,false,"x"],"c":{"d":{"e":[[]]}}}',
    '{ "a" : [ 1 , 2 ] , "b" : { "c" : "d" } }',
    '{"a":"{\\"not\\":\\"parsed\\"}","b":"]}","c":"\\\\"}',
]
MALFORMED = [
    "[1]",
    '"text"',
    "12",
    "true",
    "x",
    "{]",
    "{,",
    "{1",
    '{"a"}',
    '{"a",',
    '{"a":}',
    '{"a":,',
    '{"a":1 2',
    '{"a":1,}',
    '{"a":01',
    '{"a":1.e5',
    '{"a":1.5.',
    '{"a":.5',
    '{"a":+1',
    '{"a":--',
    '{"a":1e5.',
    '{"a":1ex',
    '{"a":trux',
    '{"a":nulll',
    '{"a":NaN',
    '{"a":Infinity',
    '{"a":[1}',
    '{"a":[1,]',
    '{"a":[,',
    '{"a":{]',
    '{"a":{"b":1]',
    '{"a":"\\x',
    '{"a":"\\u12g',
    '{"a":"raw \n line',
    "{'a'",
    '{"a":1}}',
    '{"a":1} x',
    "{/* no */",
    '{"a" 1',
    '{"a":\u0661',  # a digit, but not of JSON
    '{"a":\u00a01',  # a space, but not of JSON
]
EASY_TEXT = st.text(alphabet=st.sampled_from('ab1.,:{}[]"\\ué😀\n \u2028'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | EASY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(EASY_TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(EASY_TEXT, VALUES, max_size=4)


def stdlib_reads(text: str) -> dict[str, Any] | None:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("text", WHOLE)
def test_every_proper_prefix_of_an_object_is_cut_and_the_whole_is_whole(text: str) -> None:
    end = len(text.rstrip())
    for length in range(end):
        assert scan_object(text[:length]).status == "cut", text[:length]
        if text[:length].strip():
            assert judge(text[:length]).status == "cut", text[:length]
    assert scan_object(text).status == "whole"
    assert scan_object(text).at == end
    assert judge(text).value == json.loads(text)


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("text", MALFORMED)
def test_text_that_can_never_become_an_object_is_malformed(text: str) -> None:
    judged = judge(text)
    assert judged.status == "malformed"
    assert judged.why
    assert judged.value is None


@given(OBJECTS, st.booleans(), st.sampled_from([None, 1]))
def test_every_prefix_of_any_object_is_cut(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert [scan_object(text[:length]).status for length in range(len(text))] == ["cut"] * len(text)
    assert scan_object(text).status == "whole"


@given(OBJECTS, st.data())
def test_damaged_objects_are_whole_only_if_the_standard_library_reads_them(
    value: dict[str, Any], data: Any
) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    at = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 2))
    damaged = text[:at] + data.draw(st.text('{}[]",:\\u0123eE.-+ntf \n', max_size=2)) + text[at + removed :]
    scan = scan_object(damaged)
    alone = scan.status == "whole" and not damaged[scan.at :].strip(" \t\r\n")
    assert alone == (stdlib_reads(damaged) is not None)


@given(st.text('{}[]",:\\u01eE.-tfn a', max_size=12))
@example('{"":1.}')
@example('{"":-')
def test_the_scanner_and_the_judgement_agree_on_any_text(text: str) -> None:
    judged = judge(text)
    reading = stdlib_reads(text)
    if text.strip(" \t\r\n"):
        assert (judged.status == "whole") == (reading is not None)
        assert judged.value == reading
    if judged.status == "cut":
        assert scan_object(text).status == "cut"


@given(st.text('{}[]",:\\u01eE.-+tfn ', max_size=6))
def test_a_text_called_malformed_stays_so_whatever_follows(text: str) -> None:
    if scan_object(text).status == "malformed":
        for more in ('"', "}", '"}', ":1}", '":1}', "1}", "]}", "0", "e5}", '"a":1}'):
            assert stdlib_reads(text + more) is None


@pytest.mark.parametrize("text", ["", "  \n", "null", " null "])
def test_nothing_at_all_means_no_arguments(text: str) -> None:
    assert judge(text).value == {}


@pytest.mark.parametrize("text", ['{"a":"\\ud83d"}', '{"a":"\ud83d"}', '{"\\ud83d":1}', '{"\ud83d":1}'])
def test_half_a_surrogate_pair_is_refused_and_not_called_cut(text: str) -> None:
    judged = judge(text)
    assert (judged.status, judged.why) == ("malformed", "a string holds half a surrogate pair")
    assert scan_object(text).status == "whole"


def test_nesting_without_end_is_refused_and_does_not_raise() -> None:
    assert judge('{"a":' + "[" * 100_000).status == "malformed"
    assert scan_object('{"a":' + "[" * 100_000).status == "cut"
    assert scan_object('{"a":' + "[" * 100_000 + "]" * 100_000 + "}").status == "whole"


def test_numbers_that_no_machine_number_holds_are_refused() -> None:
    assert judge('{"a":1e999}').status == "malformed"
    assert judge('{"a":' + "1" * 5_000 + "}").status == "malformed"


def test_members_say_where_each_value_stands_and_which_is_open() -> None:
    text = '{"a": [1, {"b": 2}], "c":"d", "e": 12'
    members = scan_object(text).members
    assert [(one.key, text[one.start : one.end]) for one in members] == [
        ("a", '[1, {"b": 2}]'),
        ("c", '"d"'),
        ("e", "12"),
    ]
    assert [one.end is None for one in members] == [False, False, True]


@pytest.mark.parametrize(
    "value", ["12", "-1.5", "1.", "1e", "tru", "true", '"open', "[1,", "{", '"\\', '"\\u00']
)
def test_a_value_that_touches_the_cut_is_open(value: str) -> None:
    (member,) = scan_object('{"a":' + value).members
    assert (member.key, member.start, member.end) == ("a", 5, None)


@pytest.mark.parametrize("text", ["{", '{"', '{"a', '{"a"', '{"a":', '{"a": '])
def test_a_member_without_a_value_is_not_listed(text: str) -> None:
    assert scan_object(text).members == ()


@given(st.lists(OBJECTS, min_size=1, max_size=4), st.sampled_from(["", " ", "\n"]))
def test_objects_behind_each_other_are_told_apart(values: list[dict[str, Any]], between: str) -> None:
    texts = [json.dumps(value) for value in values]
    assert split_objects(between.join(texts)) == tuple(texts)
    assert split_objects(between.join(texts)[:-1]) == ()


@pytest.mark.parametrize("text", ["", " ", "{} x", "{}[", "1", '{"a":1},{"b":2}'])
def test_what_is_not_only_objects_is_not_split(text: str) -> None:
    assert split_objects(text) == ()


def test_scanning_starts_where_it_is_told() -> None:
    assert scan_object('{"a":1}{"b":2}', 7).at == 14


def test_long_text_is_scanned_to_the_end() -> None:
    body = "".join(("\\n", string.ascii_letters, "\\u00e9")) * 20_000
    text = '{"a":"' + body
    assert scan_object(text).status == "cut"
    assert scan_object(text + '"}').status == "whole"
    assert judge(text + '"}').value == msgspec.json.decode(text + '"}')


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"a":1,"a":2}', "malformed"),
        ('{"a":{"b":1,"b":2}}', "malformed"),
        ('{"a":[{"b":":"},{"b":1,"b":2}]}', "malformed"),
        ('{"a":1,"a":1}', "whole"),
        ('{"a":":","b":[{"c":"::"}]}', "whole"),
    ],
)
def test_a_key_with_two_values_is_found_wherever_it_stands(text, status):
    assert judge(text).status == status
