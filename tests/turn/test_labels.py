"""Short names of calls, for people."""

import pytest

from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.turn.labels import emoji_of, short_argument, shortened


@pytest.mark.requirement("F3")
@pytest.mark.parametrize("name", [tool.name for tool in BUILT_IN])
def test_each_tool_of_our_own_has_a_sign(name: str):
    assert emoji_of(name) != emoji_of("somebody_elses")


def test_tools_of_others_have_one_sign_in_common():
    assert emoji_of("a") == emoji_of("") == "🔧"


@pytest.mark.requirement("F3", "H5")
@pytest.mark.parametrize(
    ("arguments", "short"),
    [
        (
            {"command": "curl -H 'Authorization: Bearer abc123def456' host"},
            "curl -H 'Authorization: [secret]' host",
        ),
        ({"url": "https://ann:pass@host/x"}, "https://[secret]@host/x"),
        ({"command": "export KEY=sk-" + "a" * 400}, "export KEY=[secret]"),
        ({"x": {"token": "tb-" + "a" * 30}}, "{'token': '[secret]'}"),
    ],
)
def test_a_label_holds_no_credential(arguments, short):
    assert short_argument(arguments) == short


@pytest.mark.parametrize("length", range(1, 80))
def test_a_line_is_as_short_as_it_must_be_and_loses_only_its_end(length: int):
    line = shortened("word \n\t" * 40, length)
    assert len(line) <= length
    assert " ".join(["word"] * 40).startswith(line.removesuffix("…"))
