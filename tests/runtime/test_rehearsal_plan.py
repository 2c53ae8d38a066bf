"""What the rehearsal model makes of words."""

import pytest

from turnbuckle.lab.rehearsal.commands import LONGEST_TASK, plan_of
from turnbuckle.lab.rehearsal.words import HELP


def _calls(task: str) -> list[tuple[str, object]]:
    return [(step.tool, next(iter(step.arguments.values()), None)) for step in plan_of(task).steps]


@pytest.mark.parametrize(
    ("task", "calls"),
    [
        ("write a.txt", [("write_file", "a.txt")]),
        ("Please write the file b/c.md.", [("write_file", "b/c.md")]),
        ("could you please write a file called x.md with 3 lines!", [("write_file", "x.md")]),
        ("write 12 lines to x.md", [("write_file", "x.md")]),
        ("write `a name with spaces.txt` with 2 lines", [("write_file", "a name with spaces.txt")]),
        ("write a.txt and read it", [("write_file", "a.txt"), ("read_file", "a.txt")]),
        (
            "write a.txt. Then read it. Then list.",
            [("write_file", "a.txt"), ("read_file", "a.txt"), ("list_files", None)],
        ),
        ("first list, and then read a.txt", [("list_files", None), ("read_file", "a.txt")]),
        ("list files in src/", [("list_files", "src/")]),
        ("list the files in this folder", [("list_files", None)]),
        ("run echo hi, read x and list y", [("shell", "echo hi, read x and list y")]),
        ("run echo hi, then list", [("shell", "echo hi"), ("list_files", None)]),
        ("run `echo hi, then list and cut`", [("shell", "echo hi, then list and cut")]),
        ("run sh -c 'if true; then echo yes; fi'", [("shell", "sh -c 'if true; then echo yes; fi'")]),
        ("wait", [("shell", "sleep 3")]),
        ("sleep for 1.5 seconds", [("shell", "sleep 1.5")]),
        ("wait 999 seconds", [("shell", "sleep 600")]),
        (
            "fetch http://localhost:1/a, then list",
            [("fetch_url", "http://localhost:1/a"), ("list_files", None)],
        ),
        ("ask me", [("ask_user", "What should I do next?")]),
        ("ask me where to cut the cake?", [("ask_user", "Where to cut the cake?")]),
        ("call a_tool", [("a_tool", None)]),
        ('use a_tool with {"x": [1, 2]}', [("a_tool", [1, 2])]),
        ("call a_tool with {wrong}", [("", None)]),
        ("replace a b by c in d.txt", [("edit_file", "d.txt")]),
        ("edit d.txt replacing `one, two` by `three`", [("edit_file", "d.txt")]),
        ("append to a.txt: more, and more", [("append_file", "a.txt")]),
        ("write cut.txt", [("write_file", "cut.txt")]),
        ("write me a poem", [("", None)]),
        ("", []),
        ("make use of it", [("", None)]),
        ("run ls .", [("shell", "ls .")]),
        ("run echo `a; then read b`, then list", [("shell", "echo a; then read b"), ("list_files", None)]),
        ("search for a.b, then list", [("search_files", r"a\.b"), ("list_files", None)]),
        ("change one to two in `my file.txt`", [("edit_file", "my file.txt")]),
        ("replace by in", [("", None)]),
        ("I wonder whether you would read a.txt", [("", None)]),
        ("write", [("", None)]),
        ("``", [("", None)]),
        ("` write a.txt", [("", None)]),
        ("write a.txt, , then list", [("write_file", "a.txt"), ("list_files", None)]),
    ],
)
def test_words_become_calls(task: str, calls: list[tuple[str, object]]) -> None:
    assert _calls(task) == calls


@pytest.mark.parametrize(
    ("task", "breaks", "every"),
    [
        ("write a.txt and cut", ["cut"], False),
        ("write a.txt, stall", ["stall"], False),
        ("write a.txt but lie twice", ["lie", "lie"], False),
        ("write a.txt and cut 3 times and be busy", ["cut", "cut", "cut", "busy"], False),
        ("write a.txt and cut every time", ["cut"], True),
        ("write a.txt break with a stall", ["stall"], False),
        ("write a.txt and cut 99 times", ["cut"] * 20, False),
        ("stall", ["stall"], False),
        ("please break by cut", ["cut"], False),
        ("be busy twice", ["busy", "busy"], False),
        ("Stall!", ["stall"], False),
        ("write a.txt about the cut", [], False),
        ("write `and cut.txt`", [], False),
        ("write a.txt and failover", [], False),
    ],
)
def test_words_say_how_it_breaks(task: str, breaks: list[str], every: bool) -> None:
    (step,) = plan_of(task).steps
    assert (list(step.breaks), step.every) == (breaks, every)


def test_nothing_that_somebody_types_is_too_odd_for_a_plan() -> None:
    odd = (
        "`",
        "``",
        "```",
        ",",
        ". .",
        "and",
        "then then",
        "be",
        "break with a",
        "and cut 3",
        "write : :",
        "\0",
    )
    for task in (*odd, *(f"write a.txt {word}" for word in odd), *(f"{word} write a.txt" for word in odd)):
        assert all(step.text or step.tool for step in plan_of(task).steps), task


def test_slowly_may_stand_in_front_and_behind() -> None:
    for task in (
        "slowly write a.txt",
        "write a.txt slowly and cut",
        "write a.txt, slowly",
        "write a.txt and cut slowly",
    ):
        (step,) = plan_of(task).steps
        assert (step.slowly, step.arguments["path"]) == (True, "a.txt")


def test_a_program_s_long_prompt_is_not_searched_for_verbs() -> None:
    assert [step.text for step in plan_of("write a.txt " * LONGEST_TASK).steps] == [HELP]


def test_every_request_that_the_help_names_is_understood() -> None:
    named = [line.split("`") for line in HELP.splitlines() if line.startswith("- `")]
    requests = [word for parts in named for word in parts[1::2] if not word.startswith(("and", "A", "twice"))]
    assert len(requests) > 12
    for request in requests:
        filled = request.replace("N ", "2 ").replace("ADDRESS", "http://localhost")
        (step,) = plan_of(filled).steps
        assert step.text != HELP, request
