"""Whether a text looks finished: a sign for hosts that never give a reason to stop."""

import pytest

from turnbuckle.vocab.text_end import ends_like_an_end


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "Really?!",
        "(see below)",
        "“Yes.”",
        "完了。",
        "```py\nx = 1\n```",
        "| a | b |\n",
        "</ul>",
        "Fine 👍",
        "**bold**",
    ],
)
def test_a_text_that_looks_finished(text: str):
    assert ends_like_an_end(text)


@pytest.mark.parametrize("text", ["", " \n", "The wind", "a, b,", "one -", "```py\nx = (1)", "Paris"])
def test_a_text_that_may_have_been_broken_off(text: str):
    assert not ends_like_an_end(text)
