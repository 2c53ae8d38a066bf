"""A client's body, read by paths: what is wrong is named, and no bytes raise."""

import math

import msgspec
import pytest

from turnbuckle.vocab.messages import FilePart, ImagePart
from turnbuckle.wire.fields import DEEPEST, MOST_VALUES, Fields, Refused, keepable, open_body
from turnbuckle.wire.media import document, picture
from turnbuckle.wire.openai_chat.parse_request import read_chat
from turnbuckle.wire.openai_responses.parse_request import read_response


def refusal(read):
    with pytest.raises(Refused) as caught:
        read()
    return caught.value.failure


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "not valid JSON"),
        (b"{}{}", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 5_000, "nested too deeply"),
        (b'{"a": "\xff"}', "not valid UTF-8 (byte 7)"),
        ('{"a": 1}'.encode("utf-16"), "not valid UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
        (b"[1]", "not an array"),
        (b'"text"', "not a string"),
        (b"3", "not a number"),
        (b"null", "not null"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "JSON"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused_in_words(body, words):
    failure = refusal(lambda: open_body(body))
    assert words in failure.message
    assert (failure.kind, failure.status, failure.retryable, failure.type) == (
        "invalid",
        400,
        False,
        "invalid_request_error",
    )


def test_half_a_surrogate_pair_becomes_a_replacement_character():
    assert open_body(b'{"a": "x\\ud83d"}').text("a") == "x\ufffd"
    assert open_body(b'{"a": "\\ud83d\\ude00"}').text("a") == "\U0001f600"


GIVEN = {
    "text": "t",
    "empty": " ",
    "flag": True,
    "number": 1.5,
    "whole": 2,
    "point": 3.0,
    "list": ["a", "b"],
    "mixed": ["a", 1],
    "objects": [{"x": 1}, {"x": 2}],
    "object": {"in": "side"},
    "null": None,
    "big": 10**40,
}


@pytest.mark.parametrize(
    "read, expected",
    [
        (lambda f: f.text("text"), "t"),
        (lambda f: f.text("null"), None),
        (lambda f: f.need_text("text"), "t"),
        (lambda f: f.flag("flag"), True),
        (lambda f: f.flag("absent"), None),
        (lambda f: f.number("number", 0, 2), 1.5),
        (lambda f: f.number("whole", 0, 2), 2.0),
        (lambda f: f.count("whole", 0), 2),
        (lambda f: f.count("point", 0), 3),
        (lambda f: f.count("null", 0), None),
        (lambda f: f.texts("list", 2), ("a", "b")),
        (lambda f: f.texts("null", 2), ()),
        (lambda f: [one.count("x", 0) for one in f.objects("objects", 9)], [1, 2]),
        (lambda f: f.need_inner("object").text("in"), "side"),
        (lambda f: f.inner("null"), None),
        (lambda f: f.kept("object"), {"in": "side"}),
        (lambda f: Fields({"a": 1, "b": None, "c": 2}).whole("c"), {"a": 1}),
    ],
)
def test_a_value_that_fits_is_given(read, expected):
    assert read(Fields(GIVEN)) == expected


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "read, param, code, words",
    [
        (lambda f: f.text("whole"), "p.whole", "invalid_type", "must be a string, not a number"),
        (lambda f: f.text("text", most=0), "p.text", "string_above_max_length", "at most 0"),
        (lambda f: f.need_text("absent"), "p.absent", "missing_required_parameter", "is missing"),
        (lambda f: f.need_text("null"), "p.null", "missing_required_parameter", "is missing"),
        (lambda f: f.need_text("empty"), "p.empty", "invalid_value", "is empty"),
        (lambda f: f.flag("whole"), "p.whole", "invalid_type", "must be a boolean"),
        (lambda f: f.number("text", 0, 1), "p.text", "invalid_type", "must be a number, not a string"),
        (lambda f: f.number("flag", 0, 1), "p.flag", "invalid_type", "not a boolean"),
        (lambda f: f.number("number", 0, 1), "p.number", "invalid_value", "between 0 and 1"),
        (lambda f: f.number("big", 0, 1), "p.big", "invalid_value", "between 0 and 1"),
        (lambda f: f.count("number", 0), "p.number", "invalid_type", "a whole number"),
        (lambda f: f.count("flag", 0), "p.flag", "invalid_type", "a whole number"),
        (lambda f: f.count("whole", 3), "p.whole", "invalid_value", "between 3"),
        (lambda f: f.count("big", 3), "p.big", "invalid_value", "between 3"),
        (lambda f: f.inner("list"), "p.list", "invalid_type", "must be an object, not an array"),
        (lambda f: f.need_inner("null"), "p.null", "missing_required_parameter", "is missing"),
        (lambda f: f.listed("object", 9), "p.object", "invalid_type", "must be an array, not an object"),
        (lambda f: f.listed("list", 1), "p.list", "array_above_max_length", "has 2 elements"),
        (lambda f: f.texts("mixed", 9), "p.mixed[1]", "invalid_type", "must be a string"),
        (lambda f: f.objects("mixed", 9), "p.mixed[0]", "invalid_type", "must be an object"),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_its_path(read, param, code, words):
    failure = refusal(lambda: read(Fields(GIVEN, "p")))
    assert (failure.param, failure.code) == (param, code)
    assert failure.message.startswith(param)
    assert words in failure.message


@pytest.mark.parametrize("shell", [lambda inner: [inner], lambda inner: {"k": inner}])
def test_what_is_kept_may_be_nested_up_to_the_limit(shell):
    value = 1
    for _ in range(DEEPEST - 1):
        value = shell(value)
    keepable(value, "p")
    assert msgspec.json.decode(msgspec.json.encode(value)) == value
    assert "levels deep" in refusal(lambda: keepable(shell(value), "p")).message


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_what_is_kept_holds_no_number_that_json_lacks(number):
    assert "out of range" in refusal(lambda: keepable({"a": [number]}, "p")).message
    # The quick decoder refuses such a number; the careful one, behind half a surrogate pair, would let it through.
    body = open_body(b'{"a": "\\ud83d", "b": {"c": 1e999}, "d": 1e999}')
    assert "out of range" in refusal(lambda: body.kept("b")).message
    assert "between" in refusal(lambda: body.number("d", 0, 2)).message


def test_what_is_kept_has_a_limit_of_values():
    keepable([0] * (MOST_VALUES - 1), "p")
    assert refusal(lambda: keepable([0] * MOST_VALUES, "p")).message == "p holds more than 100,000 values."


@pytest.mark.requirement("F1", "F4")
@pytest.mark.parametrize(
    "read, body, param",
    [
        (read_chat, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 20_000}] * 3}, "messages[2].content"),
        (read_response, {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}] * 20_000}] * 3}, "input[2].content"),
    ],
)  # fmt: skip
def test_all_messages_of_a_request_share_one_limit_of_parts(read, body, param):
    found = read(msgspec.json.encode({"model": "m", **body}))
    assert (found.param, found.code) == (param, "array_above_max_length")
    assert "all messages together may have 50,000 parts" in found.message


# Pictures and files


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "address, expected",
    [
        ("https://x/a.png", ImagePart(url="https://x/a.png")),
        ("HTTP://x/a.png", ImagePart(url="HTTP://x/a.png")),
        ("data:image/jpeg;base64,AAA=", ImagePart(data="AAA=", media_type="image/jpeg")),
        ("DATA:image/png;BASE64,AA==", ImagePart(data="AA==", media_type="image/png")),
        ("data:;base64,AA==", ImagePart(data="AA==")),
        ("data:image/png;charset=utf-8;base64,AA%3D%3D", ImagePart(data="AA==", media_type="image/png")),
        ("data:image/svg+xml,%3Csvg/%3E", ImagePart(data="PHN2Zy8+", media_type="image/svg+xml")),
    ],
)
def test_a_picture_is_read_from_its_address(address, expected):
    assert picture(Fields({"url": address}), "url", None) == expected
    assert picture(Fields({"url": address}), "url", "auto") == expected
    assert picture(Fields({"url": address}), "url", "high").detail == "high"


@pytest.mark.parametrize(
    "address, words",
    [
        (None, "is missing"),
        ("", "is empty"),
        ("file:///etc/passwd", "must begin with http://"),
        ("a.png", "must begin with http://"),
        ("data:image/png;base64", "without data"),
        ("data:image/png;base64,", "without data"),
        ("https://x/" + "a" * 20_000, "longer than"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(address, words):
    failure = refusal(lambda: picture(Fields({"url": address}, "p"), "url", None))
    assert failure.param == "p.url"
    assert words in failure.message


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "given, expected",
    [
        ({"file_id": "file-1"}, FilePart(file_id="file-1")),
        ({"file_url": "https://x/a.pdf"}, FilePart(url="https://x/a.pdf")),
        (
            {"filename": "a.bin", "file_data": "data:application/pdf;base64,AA=="},
            FilePart("a.bin", data="AA==", media_type="application/pdf"),
        ),
        (
            {"filename": "a.PDF", "file_data": "AA=="},
            FilePart("a.PDF", data="AA==", media_type="application/pdf"),
        ),
        ({"filename": "odd", "file_data": "AA=="}, FilePart("odd", data="AA==")),
    ],
)
def test_a_file_is_read_by_the_one_way_that_is_given(given, expected):
    assert document(Fields(given), url="file_url") == expected


@pytest.mark.parametrize(
    "given", [{}, {"filename": "a"}, {"file_id": "a", "file_data": "b"}, {"file_data": None}]
)
def test_a_file_needs_exactly_one_way_to_it(given):
    failure = refusal(lambda: document(Fields(given, "p"), url="file_url"))
    assert (failure.param, failure.message) == ("p", "p needs exactly one of file_id, file_data, file_url.")
