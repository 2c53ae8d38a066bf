"""Markdown as it streams becomes blocks that nothing changes any more."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.cli.chat.blocks import LONGEST, Block, BlockSplitter

TEXT = """# Head
One *line*
and another.

- a
- b
  - inside
- c

1. one

   more of one
2. two
   ```python
   def f():
       return 1
   ```
Behind.
> quoted
> again

| a | b |
|---|---|
| 1 | 2 |
after the table

---

~~~
```
~~~
"""


def blocks(*pieces):
    splitter = BlockSplitter()
    return [*(block for piece in pieces for block in splitter.feed(piece)), *splitter.close()]


def plain(*pieces):
    return [(block.kind, block.text) for block in blocks(*pieces)]


@pytest.mark.requirement("H2")
def test_every_kind_of_block_ends_where_nothing_can_change_it():
    assert plain(TEXT) == [
        ("heading", "# Head"),
        ("paragraph", "One *line*\nand another."),
        ("item", "- a"),
        ("item", "- b\n  - inside"),
        ("item", "- c"),
        ("item", "1. one\n\n   more of one"),
        ("item", "2. two"),
        ("code_begin", "python"),
        ("code", "def f():"),
        ("code", "    return 1"),
        ("code_end", ""),
        ("paragraph", "Behind.\n> quoted\n> again"),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("paragraph", "after the table"),
        ("rule", "---"),
        ("code_begin", ""),
        ("code", "```"),
        ("code_end", ""),
    ]


@pytest.mark.requirement("H2")
def test_any_split_of_the_text_gives_the_same_blocks():
    whole = blocks(TEXT)
    for size in range(1, len(TEXT)):
        assert blocks(*(TEXT[at : at + size] for at in range(0, len(TEXT), size))) == whole


@given(st.text("ab \n`~#-|1.>*", max_size=120), st.lists(st.integers(0, 120), max_size=6))
def test_no_word_is_lost_and_no_split_matters(text, cuts):
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    whole = blocks(text)
    assert blocks(*(text[a:b] for a, b in itertools.pairwise(edges))) == whole
    letters = [char for block in whole for char in block.text if char in "ab1"]
    assert letters == [char for char in text if char in "ab1"]


def test_a_block_is_handed_out_as_soon_as_its_last_line_is_whole():
    splitter = BlockSplitter()
    assert splitter.feed("# He") == []
    assert splitter.feed("ad\nSome te") == [Block("heading", "# Head")]
    assert splitter.is_open
    assert splitter.tail(4) == "e te"
    assert splitter.feed("xt\n") == []
    assert splitter.tail(100) == "Some text\n"
    assert splitter.feed("\n") == [Block("paragraph", "Some text")]
    assert not splitter.is_open
    assert [block.text for block in splitter.feed("```\nx = 1\ny")] == ["", "x = 1"]
    assert splitter.is_open
    assert [block.kind for block in splitter.close()] == ["code", "code_end"]


def test_items_of_one_list_stand_together_and_those_behind_a_blank_line_do_not():
    assert [block.apart for block in blocks("- a\n- b\n\n- c\n")] == [True, False, True]


@pytest.mark.parametrize("piece", ["word ", "wordwithoutspaces"])
def test_a_block_without_an_end_is_handed_out_in_parts_of_bounded_length(piece):
    splitter, seen = BlockSplitter(), []
    for _ in range(5_000):
        seen += splitter.feed(piece)
        assert len(splitter.tail(10**9)) <= LONGEST + len(piece)
    seen += splitter.close()
    assert len(seen) > 1
    assert all(len(block.text) <= LONGEST + len(piece) for block in seen)
    assert [block.apart for block in seen] == [True, *[False] * (len(seen) - 1)]
    letters = sum(char != " " for block in seen for char in block.text)
    assert letters == 5_000 * len(piece.strip())
