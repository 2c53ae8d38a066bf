"""Secrets are taken out, in every spelling, and ordinary words stay."""

import json
from urllib.parse import quote

import pytest

from turnbuckle.vocab.redaction import (
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


def test_no_secrets_change_nothing():
    assert Redactor().text("anything") == Redactor([""]).sample("anything") == "anything"


def test_variables_and_headers_are_secret_by_their_names():
    environment = {"PATH": "/bin", "OPENAI_API_KEY": "one", "DB_PASSWORD": "two", "my_token": "three"}
    assert without_secrets(environment) == {"PATH": "/bin"}
    assert secrets_in(environment) == {"one", "two", "three"}
    headers = {"authorization": "Bearer one", "x-api-key": "two", "anthropic-version": "2023-06-01"}
    assert secrets_in_headers(headers) == {"one", "two"}
