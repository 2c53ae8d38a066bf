"""Secrets are taken out, in every spelling, and ordinary words stay."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.vocab.redaction import (
    Redaction,
    Redactor,
    secrets_in,
    secrets_in_headers,
    without_credentials,
    without_secrets,
)

SECRET = 'p@ss/w0rd"with\\all+of=it'


@pytest.mark.requirement("H5")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-abcdefghijklmnopqrstuv used", "key [secret] used"),
        ("your key tb-abcdefghijklmnopqrstuv", "your key [secret]"),
        ("Authorization: Bearer abcdefghijklmnop.qrs", "Authorization: [secret]"),
        ("authorization=Basic dXNlcjpwYXNz!", "authorization=[secret]"),
        ('{"Authorization": "Bearer abc.def"}', '{"Authorization": "[secret]"}'),
        ('"{\\"x-api-key\\": \\"abcdef\\"}"', '"{\\"x-api-key\\": \\"[secret]\\"}"'),
        ("sent Bearer abcdefghijk1 twice", "sent [secret] twice"),
        ("Cookie: session=abcdefgh; path=/", "Cookie: [secret]; path=/"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123", "[secret]"),
        ("key=AIzaSyA0123456789abcdefghijklmnopqrs", "key=[secret]"),
        ("postgres://user:pass-word@host/db", "postgres://[secret]@host/db"),
        ("AKIAABCDEFGHIJKLMNOP and ASIAABCDEFGHIJKLMNOP", "[secret] and [secret]"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [secret]"),
        ("https://host/v1?key=AbC123dEf&alt=sse", "https://host/v1?key=[secret]&alt=sse"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl ended", "token [secret] ended"),
        ('{"api_key": "abc123def"}', '{"api_key": "[secret]"}'),
    ],
)
def test_whatever_looks_like_a_credential_is_taken_out_of_messages(text: str, shown: str):
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a key to success: sk-ill and bearers",
        "Bearer authentication is needed",
        "the api_key: required by the endpoint",
        "password: must be given",
        "no authorization header was sent",
        "see https://host:8443/path?id=5 and a@b.example",
        "eyJ is how some tokens begin",
        "on disk-abcdefghijklmnopqrstuv the key begins inside of a word",
        "max_tokens: 128000 is more than the cap",
    ],
)
def test_ordinary_words_are_left_alone(text: str):
    assert Redactor(["a", "short"]).message(text) == text


@pytest.mark.requirement("H5")
@pytest.mark.parametrize(
    "spelt",
    [SECRET, json.dumps(SECRET)[1:-1], json.dumps(SECRET)[1:-1].replace("/", "\\/"), quote(SECRET, safe="")],
)
def test_a_known_secret_is_found_in_every_spelling(spelt: str):
    assert Redactor([SECRET]).text(f"it says {spelt}.") == "it says [secret]."


def test_the_longest_secret_wins_where_one_begins_with_another():
    assert Redactor(["abcdefgh", "abcdefghijkl"]).text("abcdefghijkl abcdefgh") == "[secret] [secret]"


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("length", range(len(SECRET) + 1))
def test_a_sample_that_ends_inside_of_a_secret_does_not_show_its_beginning(length: int):
    shown = Redactor([SECRET]).sample(f"the key is {SECRET[:length]}")
    if length < 8:
        assert shown == f"the key is {SECRET[:length]}"
    else:
        assert shown == "the key is [secret]"
    cut = Redactor([SECRET]).sample(f"the key is {SECRET[:length]}", cut=True)
    assert cut == ("the key is " if length < 8 else "the key is [secret]")


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("length", range(5, len(SECRET) + 1))
def test_a_sample_that_ends_inside_of_a_secret_with_a_break_in_it_does_not_show_it(length: int, end: str):
    text = f"the key is {SECRET[:4]}{end}{SECRET[4:length]}"
    assert Redactor([SECRET]).sample(text) == (text if length < 8 else "the key is [secret]")


def test_no_secrets_change_nothing():
    assert Redactor().text("anything") == Redactor([""]).sample("anything") == "anything"


def test_variables_and_headers_are_secret_by_their_names():
    environment = {"PATH": "/bin", "OPENAI_API_KEY": "one", "DB_PASSWORD": "two", "my_token": "three"}
    assert without_secrets(environment) == {"PATH": "/bin"}
    assert secrets_in(environment) == {"one", "two", "three"}
    headers = {"authorization": "Bearer one", "x-api-key": "two", "anthropic-version": "2023-06-01"}
    assert secrets_in_headers(headers) == {"one", "two"}


LONG_KEY = "sk-proj-" + "".join(chr(65 + number * 7 % 26) + str(number) for number in range(40))


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("before", range(0, 80, 7))
@pytest.mark.parametrize("way", ["base64", "xxd"])
def test_a_secret_is_found_where_a_tool_has_broken_the_line(before: int, way: str):
    """`base64 file` and `xxd -p file` break their lines after 76 and 60 characters."""
    raw = b"x" * before + LONG_KEY.encode() + b" and more of the file" * 3
    whole, width = (base64.b64encode(raw).decode(), 76) if way == "base64" else (raw.hex(), 60)
    wrapped = "\n".join(whole[at : at + width] for at in range(0, len(whole), width))
    redactor = Redactor([LONG_KEY])
    for shown in (redactor.text(wrapped), *(in_pieces(redactor, wrapped, size) for size in (1, 7, 76, 77))):
        flat = shown.replace("\n", "")
        spelled = whole[(before * 4 // 3 if way == "base64" else before * 2) + 4 :][:40]
        assert spelled not in flat
        assert "[secret]" in shown


def in_pieces(redactor: Redactor, text: str, size: int) -> str:
    stream = Redaction(redactor)
    return "".join([*(stream.add(text[at : at + size]) for at in range(0, len(text), size)), stream.close()])


@pytest.mark.requirement("R3")
def test_a_secret_that_begins_another_one_does_not_let_the_rest_of_it_through():
    short, long = "password-one", "password-one-and-two"
    redactor = Redactor([short, long])
    for size in range(1, 25):
        assert in_pieces(redactor, f"it is {long}!", size) == "it is [secret]!"
        assert in_pieces(redactor, f"it is {short}!", size) == "it is [secret]!"
        assert "password" not in in_pieces(redactor, f"it is {long[:-3]}", size)


@pytest.mark.requirement("R3")
@given(st.text("ab\nx", max_size=60), st.integers(1, 9))
def test_a_text_in_pieces_shows_no_more_than_a_text_in_one(text: str, size: int):
    secrets = ["abababab", "aabbaabbaabb", "xababababx"]
    redactor = Redactor(secrets)
    shown = in_pieces(redactor, text, size)
    assert not [one for one in secrets if one in shown.replace("\n", "").replace("[secret]", "!")]
    assert shown.replace("[secret]", "") in text or "[secret]" in shown


@pytest.mark.requirement("R3")
def test_lines_that_hold_no_secret_are_shown_at_once():
    stream = Redaction(Redactor([LONG_KEY]))
    assert stream.add("first line\n") == "first line\n"
    assert stream.add("with the signs sk\n") == "with the signs "  # a line may be broken there
    assert stream.add("second\n") == "sk\nsecond\n"


DUMPS = [
    "xxd",
    "xxd -c 32",
    "xxd -g1",
    "xxd -u",
    "hexdump",
    "hexdump -C",
    "hexdump -c",
    "od -c",
    "od -x",
    "od -t x1",
    "od -b",
    "od",
    "xxd -b",
]
DUMPED_KEY = "sk-live-0123456789abcdefXYZ"


def dumped(way: str, data: bytes) -> str:
    """As these programs show it. They need not be installed."""
    words = {"hexdump": 2, "od -x": 2, "xxd": 2, "xxd -c 32": 2, "xxd -u": 2}.get(way, 1)
    width = {"xxd -c 32": 32, "xxd -b": 6}.get(way, 16)
    lines = []
    for at in range(0, len(data), width):
        row = data[at : at + width]
        if way in ("od", "od -b"):
            size, digits = (2, 6) if way == "od" else (1, 3)
            halves = [row[place : place + size] for place in range(0, len(row), size)]
            numbers = [f"{int.from_bytes(half, 'little'):0{digits}o}" for half in halves]
            lines.append(f"{at:07o} {' '.join(numbers)}")
            continue
        if way == "xxd -b":
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            lines.append(f"{at:08x}: {' '.join(f'{byte:08b}' for byte in row):<53}  {text}")
            continue
        if way.endswith("c"):
            cells = [f"{chr(byte)!r}"[1:-1] if byte == 10 else chr(byte) for byte in row]
            lines.append(f"{at:07o}" + "".join(f"{cell:>4}" for cell in cells))
            continue
        groups = [row[place : place + words] for place in range(0, len(row), words)]
        turned = way in ("hexdump", "od -x")
        shown = [(group[::-1] if turned else group).hex() for group in groups]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        if way == "hexdump -C":
            lines.append(f"{at:08x}  {' '.join(shown[:8])}  {' '.join(shown[8:])}  |{text}|")
        elif way.startswith("xxd"):
            line = f"{at:08x}: {' '.join(shown)}"
            lines.append(f"{line.upper() if way == 'xxd -u' else line}  {text}")
        else:
            lines.append(f"{at:07o} {' '.join(shown)}")
    return "\n".join(lines) + "\n"


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("way", DUMPS)
@pytest.mark.parametrize("before", [0, 7, 15])
def test_the_rows_of_a_dump_that_stand_for_a_secret_are_hidden(way: str, before: int):
    text = f'{"y" * before}\napi = "{DUMPED_KEY}"\nand other text that follows, of more than one row.\n'
    out = dumped(way, text.encode())
    redactor = Redactor([DUMPED_KEY])
    whole = redactor.text(out)
    assert "[secret]" in whole
    rows = [row for row in out.splitlines() if row in whole.splitlines()]
    assert out.splitlines()[-1] in rows  # what stands for nothing secret is shown
    for size in (1, 7, 50):
        parts = Redaction(redactor)
        pieces = [parts.add(out[at : at + size]) for at in range(0, len(out), size)]
        assert "".join(pieces) + parts.close() == whole


@pytest.mark.requirement("R3")
def test_a_dump_that_ends_inside_of_a_secret_does_not_show_its_beginning():
    out = dumped("xxd", f"key: {DUMPED_KEY}".encode())[:-60]
    parts = Redaction(Redactor([DUMPED_KEY]))
    shown = parts.add(out) + parts.close()
    assert "736b" not in shown
    assert "sk-live" not in shown


@pytest.mark.requirement("R3")
def test_rows_of_numbers_that_hold_no_secret_stay_as_they_are():
    out = dumped("xxd", bytes(range(256)) * 4)
    parts = Redaction(Redactor([DUMPED_KEY]))
    assert parts.add(out) + parts.close() == out
