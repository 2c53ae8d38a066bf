"""Scripts in a file: what they become, and what a person is told about a mistake."""

import pytest

from turnbuckle.lab.script import (
    Call,
    Case,
    Comments,
    CutOff,
    Dribble,
    Error,
    Finish,
    Frame,
    Garbage,
    Headers,
    KillAfter,
    LabRequest,
    More,
    Open,
    Pace,
    Plain,
    Raw,
    Reason,
    Refuse,
    Say,
    Stall,
    Status,
    When,
)
from turnbuckle.lab.script_text import STEPS, ScriptError, parse_case
from turnbuckle.vocab.events import Usage

EVERY_STEP = """
summary = "one of each"
again = true
steps = [
  "open",
  { say = "Grüße", pieces = 2, times = 3 },
  { reason = "hm" },
  { refuse = "no" },
  { call = "write_file", arguments = { path = "a", n = 1 }, id = "c1" },
  { call = "write_file", arguments = '{"pa', closed = false },
  { more = 'th":"a"}' },
  { raw = "data: x\\n\\n" },
  { frame = { choices = [] }, name = "chunk" },
  { stall = 2.5 },
  { stall = "forever" },
  { comments = 30, every = 10, kind = "ping" },
  { error = "overloaded", message = "busy", shape = "nested" },
  { status = 429, headers = { retry-after = "3" }, error_code = "slow_down" },
  { garbage = "bytes", content_type = "text/event-stream" },
  { plain = "text/plain" },
  { headers = { request-id = "r" } },
  { pace = 3, every = 0.5 },
  { dribble = 1 },
  { kill_after = 4000, how = "fin" },
  { when = "openai_chat streaming", steps = [{ say = "chat" }], otherwise = ["finish"] },
  { cut = "reset", inside = "character" },
  { finish = "length", said = "banana", usage = { input = 3, output = 9 }, terminal = false },
]
"""


def test_every_step_can_be_written_in_a_file() -> None:
    case = parse_case(EVERY_STEP, name="mine")
    assert case == Case(
        "mine",
        "one of each",
        (
            (
                Open(),
                Say("Grüße", 2, 3),
                Reason("hm"),
                Refuse("no"),
                Call("write_file", {"path": "a", "n": 1}, id="c1"),
                Call("write_file", '{"pa', closed=False),
                More('th":"a"}'),
                Raw("data: x\n\n"),
                Frame({"choices": []}, "chunk"),
                Stall(2.5),
                Stall("forever"),
                Comments(30, 10, "ping"),
                Error("overloaded", "busy", shape="nested"),
                Status(429, error_code="slow_down", headers={"retry-after": "3"}),
                Garbage("bytes", content_type="text/event-stream"),
                Plain("text/plain"),
                Headers({"request-id": "r"}),
                Pace(3, 0.5),
                Dribble(1),
                KillAfter(4000, how="fin"),
                When("openai_chat streaming", (Say("chat"),), (Finish(),)),
                CutOff("reset", "character"),
                Finish("length", "banana", Usage(3, 9), False),
            ),
        ),
        again=True,
    )
    used = {type(step) for script in case.requests for step in script}
    assert used == set(STEPS.values())


def test_each_request_can_have_its_own_script() -> None:
    case = parse_case(
        """
        after_tools = [{ say = "thanks" }, "finish"]
        [[requests]]
        steps = [{ status = 500 }]
        [[requests]]
        steps = [{ say = "hello" }, "finish"]
        """
    )
    assert case.requests == ((Status(500),), (Say("hello"), Finish()))
    assert case.after_tools == (Say("thanks"), Finish())


@pytest.mark.parametrize(
    "text, message",
    [
        ("steps = [{ stal = 1 }]", 'unknown step "stal" in steps[0]; did you mean "stall"?'),
        ('steps = ["open", "fnish"]', 'unknown step "fnish" in steps[1]; did you mean "finish"?'),
        ("steps = [{ xyzzy = 1 }]", 'unknown step "xyzzy" in steps[0]'),
        (
            'steps = [{ say = "x", peices = 3 }]',
            'steps[0]: unknown option of say "peices"; did you mean "pieces"?',
        ),
        ('steps = [{ say = "x", stall = 3 }]', 'steps[0]: unknown option of say "stall"'),
        ("steps = [{ say = 3 }]", "steps[0]: say: Expected `str`, got `int`"),
        ('steps = ["say"]', "steps[0]: say needs a value"),
        ('steps = [{ call = "f", pieces = "3" }]', "steps[0]: call, pieces: Expected `int`, got `str`"),
        ("steps = [{ stall = -3 }]", "steps[0]: stall: Expected `float` >= 0.0"),
        ('steps = [{ cut = "rest" }]', 'unknown word "rest"; did you mean "reset"?'),
        ('steps = [{ stall = "forevr" }]', 'unknown word "forevr"; did you mean "forever"?'),
        ('steps = [{ finish = "stap" }]', 'unknown word "stap"; did you mean "stop"?'),
        (
            'steps = [{ finish = "stop", usage = { inptu = 3 } }]',
            'unknown count "inptu"; did you mean "input"?',
        ),
        (
            'steps = [{ when = "openai_chut", steps = [] }]',
            'unknown condition "openai_chut"; did you mean "openai_chat"?',
        ),
        ('steps = [{ when = "plain", steps = [{ sya = "x" }] }]', 'unknown step "sya" in steps[0].steps[0]'),
        ("steps = [3]", "steps[0]: a step is a table"),
        ("steps = 3", "steps: a list of steps is needed"),
        ("steps = [{}]", 'unknown step "" in steps[0]'),
        ("[[requests]]\nsteps = [{ stal = 1 }]", 'unknown step "stal" in requests[0].steps[0]'),
        ("[[requests]]\nstep = []", 'requests[0]: unknown key "step"; did you mean "steps"?'),
        ("requests = []", "requests: one or more tables"),
        ("requests = [3]", "requests[0]: a table with steps is needed"),
        ("stps = []", 'unknown key "stps"; did you mean "steps"?'),
        ("steps = []\nsummary = 3", "summary: Expected `str`, got `int`"),
        ("", 'either "steps" or "requests" is needed'),
        ("this is not TOML", "this is not TOML"),
    ],
)
def test_a_mistake_is_answered_with_where_what_and_the_nearest_word(text: str, message: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_case(text)
    assert message in str(caught.value)


def test_the_nth_request_gets_the_nth_script_and_then_the_last_one_repeats() -> None:
    first, second = (Status(500),), (Finish(),)
    case = Case("x", "", (first, second))
    assert [case.script_for(number) for number in (1, 2, 3, 9)] == [first, second, second, second]


def test_a_case_can_begin_again() -> None:
    first, second = (Status(500),), (Finish(),)
    case = Case("x", "", (first, second), again=True)
    assert [case.script_for(number) for number in (1, 2, 3, 4)] == [first, second, first, second]


@pytest.mark.parametrize(
    "condition, fits",
    [
        ("openai_chat", True),
        ("openai_chat streaming", True),
        ("openai_chat plain", False),
        ("anthropic", False),
        ("", True),
    ],
)
def test_a_condition_fits_when_all_its_words_do(condition: str, fits: bool) -> None:
    assert LabRequest("openai_chat", stream=True).fits(condition) is fits
