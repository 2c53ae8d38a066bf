"""A chat: what is typed, what is shown, and what happens when the connection is lost in between."""

import asyncio

import pytest
from support.cli.scripted_chat import (
    ScriptedBackend,
    controller_of,
    ended,
    eventually,
    run_scenario,
    spoke,
    started,
)

from turnbuckle.cli.backend import BackendRefused, Lost
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, UserSpoke
from turnbuckle.vocab.messages import Message, TextPart

ASKED = ApprovalAsked(1_000.0, "a1", "c1", "shell", {"command": "make"})
OTHER = ApprovalAsked(1_000.0, "a2", "c2", "shell", {"command": "rm x"})
WHICH = ApprovalAsked(1_000.0, "q1", "c3", "ask_user", {"question": "Which?"}, "question", "Which?")


@pytest.mark.requirement("H2")
def test_a_message_is_sent_its_run_is_shown_and_the_outcome_is_the_exit_code():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "hello"), spoke("Hi."), ended("partial", why="it broke")])
        place.answers = {"hello": "r1"}
        talk, front = controller_of(place)
        await talk.open()
        assert talk.entered(" hello ") == "taken"
        await talk.settled()
        assert place.said == [("hello", None, "k1")]
        assert (front.said, front.text, front.lines) == (["hello"], "Hi.", ["partial after 1.0 s: it broke"])
        assert talk.code == 3
        assert talk.view().queued == ()
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("E4", "H2")
def test_a_connection_lost_behind_any_event_changes_nothing_on_the_screen():
    facts = [started("r1", "go"), spoke("one "), ASKED, spoke("two"), ended()]

    async def scenario():
        for cut in range(1, len(facts)):
            place = ScriptedBackend(r1=facts)
            place.answers, place.cuts, place.away = {"go": "r1"}, {"r1": [cut]}, 2
            talk, front = controller_of(place)
            await talk.open()
            talk.entered("go")
            await talk.settled()
            lost, back = "connection lost, trying again (cut)", "connected again"
            assert (front.said, front.text, front.replies.count(lost), front.replies.count(back)) == (
                ["go"],
                "one two",
                1,
                1,
            )
            assert [reply for reply in front.replies if reply.startswith("?")] == ["? May shell run this?"]
            await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("H9", "H10")
def test_nobody_says_yes_to_what_does_not_stand_on_the_screen_yet():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "build it"), ASKED])
        place.answers = {"go": "r1"}
        place.let_go.clear()
        talk, front = controller_of(place)
        front.readable.clear()
        await talk.open()
        talk.entered("go")
        await eventually(lambda: front.replies[-1:] == ["? May shell run this?"])
        assert talk.view().question is None
        assert talk.entered("y") == "refused"
        front.readable.set()
        await eventually(lambda: talk.view().question == ASKED)
        assert "task: build it" in front.lines
        assert talk.entered("y", talk.asking) == "answer"
        await eventually(lambda: place.given)
        place.let_go.set()
        place.add("r1", ended())
        await talk.settled()
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("F6", "H2")
def test_a_message_in_doubt_is_sent_again_under_the_same_key():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "hello"), ended()])
        place.answers, place.say_fails, place.away = {"hello": "r1"}, [Lost("gone"), Lost("gone")], 3
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("hello")
        await talk.settled()
        assert place.said == [("hello", None, "k1")] * 3
        assert front.said == ["hello"]
        await talk.close()

    run_scenario(scenario)


def test_a_message_that_is_refused_is_told_and_waits_no_more():
    async def scenario():
        place = ScriptedBackend()
        place.say_fails = [BackendRefused("too much")]
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("hello")
        await talk.settled()
        assert front.replies[-1] == "too much"
        assert (talk.code, talk.view().queued) == (1, ())
        await talk.close()

    run_scenario(scenario)


def test_in_a_pipe_patience_has_an_end():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "go"), spoke("one"), ended()])
        place.answers, place.cuts, place.away = {"go": "r1"}, {"r1": [2]}, 10**6
        talk, front = controller_of(place, patience=60.0)
        await talk.open()
        talk.entered("go")
        await talk.settled()
        assert talk.code == 4
        assert "no connection for" in front.replies[-1]
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("G1", "H2")
def test_a_message_while_a_run_is_under_way_stands_in_the_queue_until_its_run_begins():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "one"), spoke("first")], r2=[started("r2", "two"), ended()])
        place.answers = {"one": "r1", "two": "r2"}
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("one")
        await eventually(lambda: front.text == "first")
        talk.entered("two")
        await eventually(lambda: talk.view().queued == ("two",))
        assert (talk.view().running, front.said) == (True, ["one"])
        place.add("r1", ended())
        await talk.settled()
        assert (talk.view().queued, front.said) == ((), ["one", "two"])
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("G1")
@pytest.mark.parametrize(
    "typed, busy", [("/steer left", "steer"), ("/interrupt left", "interrupt"), ("left", None)]
)
def test_how_a_message_comes_in_can_be_said_with_it(typed, busy):
    async def scenario():
        words = UserSpoke(1_000.0, "m1", (Message("user", (TextPart("left"),)),))
        place = ScriptedBackend(r1=[started("r1", "go")])
        place.answers = {"go": "r1", "left": "r1"}
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("go")
        await eventually(lambda: front.said == ["go"])
        talk.entered(typed)
        await eventually(lambda: talk.view().queued == ("left",))
        place.add("r1", words, ended())
        await talk.settled()
        assert place.said[1] == ("left", busy, "k2")
        assert front.said == ["go", "left"]
        await talk.close()

    run_scenario(scenario)


def test_a_mode_holds_for_all_messages_behind_it():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "go"), ended()])
        place.answers = {"go": "r1"}
        talk, _front = controller_of(place)
        await talk.open()
        talk.entered("/busy interrupt")
        talk.entered("go")
        await talk.settled()
        assert place.said == [("go", "interrupt", "k1")]
        await talk.close()

    run_scenario(scenario)


async def _asking(*facts, **more):
    place = ScriptedBackend(r1=[started("r1", "go"), *facts])
    place.answers = {"go": "r1"}
    talk, front = controller_of(place, **more)
    await talk.open()
    talk.entered("go")
    await eventually(lambda: any(reply.startswith("?") for reply in front.replies))
    return place, talk, front


@pytest.mark.requirement("D8", "H2")
@pytest.mark.parametrize(
    "typed, given",
    [
        ("y", ("r1", "a1", "allow", "")),
        ("YES", ("r1", "a1", "allow", "")),
        ("n", ("r1", "a1", "deny", "")),
        ("No, use a smaller one", ("r1", "a1", "deny", "use a smaller one")),
    ],
)
def test_a_question_is_answered_in_place(typed, given):
    async def scenario():
        place, talk, _front = await _asking(ASKED)
        assert talk.entered(typed, "r1:a1") == "answer"
        await eventually(lambda: place.given == [given])
        assert talk.question is None
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("typed", ["yes please", "maybe", "yess", "да", "y n"])
def test_anything_else_is_no_answer_and_the_line_stays(typed):
    async def scenario():
        place, talk, front = await _asking(ASKED)
        assert talk.entered(typed, "r1:a1") == "refused"
        await eventually(lambda: "y allows it" in front.replies[-1])
        assert (place.given, talk.question) == ([], ASKED)
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("D8")
def test_a_line_that_was_begun_before_the_question_is_a_message_and_no_answer():
    async def scenario():
        place, talk, _front = await _asking(ASKED)
        place.answers["y"] = "r1"
        assert talk.entered("y", "") == "taken"
        await eventually(lambda: len(place.said) == 2)
        assert (place.given, talk.question) == ([], ASKED)
        assert talk.entered("y", "r1:a0") == "taken"
        assert place.given == []
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("D8")
def test_questions_are_put_one_after_the_other_and_an_answer_from_elsewhere_takes_one_away():
    async def scenario():
        place, talk, front = await _asking(ASKED, OTHER)
        assert talk.question == ASKED
        place.add("r1", ApprovalAnswered(1_000.0, "a1", "denied", "ann"))
        await eventually(lambda: talk.question == OTHER)
        await eventually(lambda: "  $ rm x" in front.lines and talk.asking)
        assert "denied by ann" in front.lines
        assert talk.entered("y", "r1:a1") == "taken"  # it was meant for the other one
        assert place.given == []
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("D8", "H2")
def test_the_next_run_puts_its_question_though_its_number_is_the_same_and_no_older_line_answers_it():
    async def scenario():
        place, talk, front = await _asking(ASKED)
        begun = talk.asking
        place.add("r1", ApprovalAnswered(1_000.0, "a1", "denied", "ann"), ended())
        place.answers |= {"next": "r2", "y": "r2"}
        place.add(
            "r2", started("r2", "next"), ApprovalAsked(1_000.0, "a1", "c1", "shell", {"command": "rm x"})
        )
        talk.entered("next")
        await eventually(lambda: "  $ rm x" in front.lines and talk.asking)
        assert talk.entered("y", begun) == "taken"
        assert place.given == []
        assert talk.entered("y", talk.asking) == "answer"
        await eventually(lambda: place.given == [("r2", "a1", "allow", "")])
        await talk.close()

    run_scenario(scenario)


def test_a_question_for_words_takes_any_words_and_commands_stay_commands():
    async def scenario():
        place, talk, front = await _asking(WHICH)
        assert talk.entered("/status", "r1:q1") == "command"
        await eventually(lambda: front.replies[-1] == "Nothing runs.")
        assert talk.entered("the blue one", "r1:q1") == "answer"
        await eventually(lambda: place.given == [("r1", "q1", "answer", "the blue one")])
        await talk.close()

    run_scenario(scenario)


def test_all_of_long_arguments_is_seen_at_once_and_again():
    async def scenario():
        long = ApprovalAsked(1_000.0, "a1", "c1", "shell", {"command": "x" * 5_000})
        _place, talk, front = await _asking(long)
        assert any("x" * 5_000 in line for line in front.lines)
        talk.entered("/args", "r1:a1")
        await eventually(lambda: front.replies[-1].count("x") == 5_000)
        assert talk.question == long
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("D8")
def test_where_nobody_sits_the_answer_is_no():
    async def scenario():
        place, talk, _front = await _asking(ASKED, WHICH, attended=False)
        await eventually(lambda: len(place.given) == 2)
        assert place.given == [
            ("r1", "a1", "deny", "Nobody is there to ask."),
            ("r1", "q1", "answer", "Nobody is there to ask."),
        ]
        await talk.close()

    run_scenario(scenario)


def test_runs_that_others_begin_are_shown_and_those_of_before_are_not():
    async def scenario():
        place = ScriptedBackend(
            old=[started("old", "before"), ended()], r2=[started("r2", "from the console"), ended()]
        )
        place.begun, place.known = ["old"], ("old",)
        talk, front = controller_of(place)
        await talk.open()
        place.begin("r2")
        await eventually(lambda: front.lines)
        assert front.said == ["from the console"]
        await talk.close()

    run_scenario(scenario)


def test_another_session_is_opened_without_leaving():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "go")])
        place.answers = {"go": "r1"}
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("go")
        await eventually(lambda: front.said == ["go"])
        place.begun = []
        talk.entered("/session other")
        await eventually(lambda: talk.session == "other")
        await eventually(lambda: "session other" in front.replies[-1])
        assert not talk.view().running
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("F8", "H2")
def test_a_silence_is_told_by_what_is_waited_for_also_when_clocks_differ():
    async def scenario():
        now = [5_000.0]
        place = ScriptedBackend(r1=[started("r1", "go", at=100.0)])
        place.answers = {"go": "r1"}
        talk, front = controller_of(place, wall=lambda: now[0])
        await talk.open()
        talk.entered("go")
        await eventually(lambda: front.said == ["go"])
        place.add("r1", ApprovalAsked(100.0, "a1", "c1", "shell", {"command": "make"}))
        await eventually(lambda: talk.question is not None)
        assert talk.view().waiting == ""
        now[0] += 7
        assert talk.view().waiting == "waiting for an answer about shell make, 7 s"
        await talk.close()

    run_scenario(scenario)


def test_an_error_of_our_own_ends_the_chat_instead_of_hanging_it():
    async def scenario():
        class Torn(ScriptedBackend):
            async def next_run(self, session, seen):
                raise ZeroDivisionError

        talk, _front = controller_of(Torn())
        await talk.open()
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(talk.broken, 100)
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("H7")
def test_a_route_that_is_chosen_holds_for_all_messages_behind_it_and_an_unknown_one_is_refused():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "a"), ended()], r2=[started("r2", "b"), ended()])
        place.answers = {"a": "r1", "b": "r2"}
        talk, front = controller_of(place)
        await talk.open()
        for line in ("a", "/model smal", "/model small", "b", "/model"):
            talk.entered(line)
            await talk.settled()
        await talk.close()
        assert place.routed == ["", "small"]
        assert "there is no route smal; did you mean small?" in front.screen
        assert "the agent runs on small from the next message on" in front.screen
        assert "* small  s" in front.screen

    run_scenario(scenario)


@pytest.mark.requirement("H7")
def test_a_message_is_retried_on_the_route_that_is_named():
    async def scenario():
        place = ScriptedBackend()
        talk, front = controller_of(place)
        await talk.open()
        for line in ("/retry", "/retry smal", "/retry small", "/retry small and more"):
            talk.entered(line)
            await talk.settled()
        await talk.close()
        assert place.changed == ["retry", "retry small"]
        assert "there is no route smal; did you mean small?" in front.screen
        assert "/retry takes nothing, or the name of a route" in front.screen

    run_scenario(scenario)
