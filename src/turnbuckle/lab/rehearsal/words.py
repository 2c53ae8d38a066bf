"""What the rehearsal model says. All of it follows from the request, so that any part of it can be said
again."""

WHO = "I am the rehearsal model: a script, not a language model. "
HELP = """I cannot think, but I do simple things, so that everything can be tried without a key. I understand:

- `write FILE`, `write FILE with N lines`, `write FILE saying WORDS`
- `append N lines to FILE`, `replace OLD by NEW in FILE`, `edit FILE`
- `read FILE`, `list`, `search for WORDS`, `fetch ADDRESS`
- `run COMMAND`, `wait N seconds`
- `ask me QUESTION`
- `call TOOL with {"name": "value"}`, for any tool there is, your own ones too; or words that are in its name
- `say WORDS`, `tell a story`, `tell a story with N lines`, `show markdown`, `think about SOMETHING`
- `A, then B, then C` for one step after the other, `A and B at once` for both together

Each of them can break on the way, as real streams do. Put one of these after it:

- `and cut`: the connection breaks in the middle
- `and stall`: nothing more comes, until a time limit notices
- `and lie`: the stream says that it is done, in the middle
- `and fail`: the provider answers with an error
- `and be busy`: the provider says when to come back
- `and refuse`: the model declines
- with `twice`, `3 times` or `every time` after it, that often

`slowly` makes it slow enough to watch: `write notes.md with 600 lines slowly and stall`. Names and commands may be put in backquotes. For a real model, run `turnbuckle init`.
"""  # noqa: E501
REFUSAL = "I am the rehearsal model, and I was asked to refuse. So I do."
MARKDOWN = """This is what markdown looks like.

# A heading

Text with **bold** and *slanted* words, `code`, and a [link](#).

## A list

1. First, the stream begins.
2. Then it breaks.
   - What came is kept.
   - The rest is asked for.
3. Nobody notices.

| break | what happens |
|---|---|
| cut | the model goes on after what it has said |
| stall | a time limit notices, and then the same |
| lie | what arrived is weighed, whatever the stream says |

> Nothing that was shown is lost.

```python
def healed(text: str, rest: str) -> str:
    return text + rest
```

---

That is all.
"""
_SUBJECTS = ("stream", "ship", "letter", "kettle", "ladder", "lantern", "clock", "bridge", "garden", "button")
_DEEDS = ("went its way", "stood still for a while", "came back", "found its end", "was not in a hurry")
_PLACES = (
    "by the river",
    "on the hill",
    "behind the house",
    "in the rain",
    "at the edge of the town",
    "near the sea",
)


def story(count: int) -> str:
    """A story of so many lines, no two of them alike."""
    told = (
        f"{number}. The {_SUBJECTS[number % 10]} {_DEEDS[number // 3 % 5]} {_PLACES[number // 2 % 6]}."
        for number in range(1, count + 1)
    )
    return "\n".join(told) + "\n"


def lines(count: int, verb: str = "written") -> str:
    """The content of a file."""
    return "".join(
        f"line {number} of {count}, {verb} by the rehearsal model\n" for number in range(1, count + 1)
    )


def thoughts(about: str) -> str:
    """What a script would think, if it could."""
    return (
        f"I was asked to think about {about}. I am a script, so I only look as if I did. "
        "First I would weigh what is known. Then I would look for what is missing. Then I would choose "
        "the shorter way."
    )
