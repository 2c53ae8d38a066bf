"""Scripts as they are played: what goes out, in which pieces, how long it takes, how it ends."""

import math

import pytest

from turnbuckle.lab.actions import Action, End, SendHead, Wait, Write
from turnbuckle.lab.dialogue import ScriptPlayer
from turnbuckle.lab.script import (
    Call,
    Comments,
    CutOff,
    Dribble,
    Error,
    Finish,
    Frame,
    Garbage,
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
    ScriptItem,
    Stall,
    Status,
    When,
)
from turnbuckle.lab.script_text import ScriptError
from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.cut_points import broken_by
from turnbuckle.testing.dry_run import DryRun, rehearse
from turnbuckle.vocab.events import Cut as CutWord
from turnbuckle.vocab.events import Event, Usage
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.registry import PROTOCOLS

every_protocol = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
both_modes = pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])


def _request(protocol: ProtocolName = "openai_chat", stream: bool = True) -> LabRequest:
    return LabRequest(protocol, stream=stream, model="lab:test", body={"model": "lab:test", "stream": stream})


def _actions(
    *script: ScriptItem, protocol: ProtocolName = "openai_chat", stream: bool = True
) -> list[Action]:
    return list(ScriptPlayer(_request(protocol, stream)).play(script))


def _play(*script: ScriptItem, protocol: ProtocolName = "openai_chat", stream: bool = True) -> DryRun:
    return rehearse(script, _request(protocol, stream))


def _reply(played: DryRun, protocol: ProtocolName) -> Reply:
    decoder = open_answer(protocol, status=played.status or 200, headers=played.headers)
    events: list[Event] = decoder.feed(played.body)
    ends = {"tidy": broken_by("tidy"), "fin": broken_by("incomplete"), "reset": broken_by("reset")}
    events += decoder.close(ends[played.end] if played.end else broken_by("stalled"))
    return fold(events)


@pytest.mark.requirement("A1", "A2", "A4", "A10")
@every_protocol
@both_modes
def test_a_script_is_read_back_as_it_was_written(protocol: ProtocolName, stream: bool) -> None:
    script = (
        Reason("let me think"),
        Say("Grüße, 漢字, 👍", pieces=1),
        Call("write_file", {"path": "a", "content": "b\n"}, pieces=3, id="c1"),
        Call("get_time", ""),
        Finish(usage=Usage(input=11, output=7)),
    )
    reply = _reply(_play(*script, protocol=protocol, stream=stream), protocol)
    assert reply.ended
    assert (reply.text, reply.reasoning, reply.finish) == ("Grüße, 漢字, 👍", "let me think", "calls")
    assert [(call.name, call.closed) for call in reply.calls] == [("write_file", True), ("get_time", True)]
    assert reply.calls[0].id == "c1"
    assert reply.model == "lab:test"
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output) == (11, 7)


@every_protocol
def test_the_same_script_gives_the_same_bytes(protocol: ProtocolName) -> None:
    script = (Reason("hm"), Say("hello"), Finish())
    assert _play(*script, protocol=protocol) == _play(*script, protocol=protocol)


@every_protocol
@both_modes
def test_a_refusal_is_read_as_one(protocol: ProtocolName, stream: bool) -> None:
    reply = _reply(_play(Refuse("I cannot."), Finish(), protocol=protocol, stream=stream), protocol)
    assert reply.ended
    assert "I cannot." in reply.text + reply.refusal


@pytest.mark.requirement("B1")
@every_protocol
@both_modes
@pytest.mark.parametrize("how", ["tidy", "fin", "reset"])
def test_a_cut_script_never_looks_finished(protocol: ProtocolName, stream: bool, how: str) -> None:
    played = _play(Say("half an answer"), CutOff(how), protocol=protocol, stream=stream)  # type: ignore[arg-type]
    reply = _reply(played, protocol)
    assert played.end == how
    assert isinstance(reply.last, CutWord)
    assert reply.text == ("half an answer" if stream else "")


@every_protocol
def test_behind_the_last_step_the_body_ends_tidily_and_nothing_is_added(protocol: ProtocolName) -> None:
    played = _play(Say("hello"), protocol=protocol)
    assert played.end == "tidy"
    assert not _reply(played, protocol).ended


@every_protocol
@pytest.mark.parametrize("inside", ["frame", "character"])
def test_a_cut_inside_something_sends_half_of_it(protocol: ProtocolName, inside: str) -> None:
    played = _play(Say("before"), CutOff("fin", inside), protocol=protocol)  # type: ignore[arg-type]
    assert not played.body.endswith(b"\n\n")
    assert _reply(played, protocol).text == "before"
    if inside == "character":
        with pytest.raises(UnicodeDecodeError):
            played.body.decode()


def test_nothing_is_sent_before_a_step_that_sends() -> None:
    assert _actions(Stall(3), CutOff("fin")) == [Wait(3), End("fin")]
    assert _actions(Stall("forever"))[0] == Wait(math.inf)
    assert [type(action) for action in _actions(Open(), Stall(3))] == [SendHead, Write, Wait, End]


def test_a_head_is_sent_once() -> None:
    heads = [
        action
        for action in _actions(Open(), Say("a"), Raw("x"), Comments(2, 1), Finish())
        if type(action) is SendHead
    ]
    assert len(heads) == 1
    assert heads[0].headers["content-type"].startswith("text/event-stream")


def test_a_paced_text_comes_in_pieces_with_waits() -> None:
    actions = _actions(Pace(2, 0.5), Say("abcdef"), CutOff("fin"))
    assert sum(isinstance(action, Wait) for action in actions) == 3
    assert _play(Pace(2, 0.5), Say("abcdef"), CutOff("fin")).seconds == 1.5


@every_protocol
def test_a_dribble_changes_the_writes_and_not_the_bytes(protocol: ProtocolName) -> None:
    dribbled = _actions(Dribble(1), Say("Grüße"), Finish(), protocol=protocol)
    writes = [action.data for action in dribbled if isinstance(action, Write)]
    assert {len(data) for data in writes} == {1}
    assert b"".join(writes) == _play(Say("Grüße"), Finish(), protocol=protocol).body


def test_modifiers_hold_together_and_from_where_they_stand() -> None:
    actions = _actions(Say("abcd"), Pace(1, 2.0), Dribble(16, 0.0), Say("ef"), Dribble(0), CutOff("fin"))
    assert [action.seconds for action in actions if isinstance(action, Wait)] == [2.0, 2.0]
    sizes = [len(action.data) for action in actions if isinstance(action, Write)]
    assert sizes[0] > 16
    assert max(sizes[2:]) == 16


@every_protocol
@pytest.mark.parametrize("limit", [1, 10, 4000])
def test_a_stream_is_killed_after_exactly_so_many_characters_of_arguments(
    protocol: ProtocolName, limit: int
) -> None:
    call = Call("write_file", {"content": "x" * 9000}, pieces=7)
    played = _play(KillAfter(arguments=limit), Say("a long word first"), call, Finish(), protocol=protocol)
    reply = _reply(played, protocol)
    assert played.end == "reset"
    received = [(len(call.arguments), call.closed) for call in reply.calls]
    assert received == ([(limit, False)] if PROTOCOLS[protocol].streams_arguments else [])


@every_protocol
def test_a_kill_by_text_counts_text_only(protocol: ProtocolName) -> None:
    played = _play(
        KillAfter(text=5, how="fin"), Reason("a long thought"), Say("abcdefgh"), Finish(), protocol=protocol
    )
    assert _reply(played, protocol).text == "abcde"
    assert played.end == "fin"


@every_protocol
def test_a_plain_answer_is_not_killed(protocol: ProtocolName) -> None:
    played = _play(KillAfter(text=1), Say("abc"), Finish(), protocol=protocol, stream=False)
    assert _reply(played, protocol).text == "abc"


@every_protocol
@both_modes
@pytest.mark.parametrize("shape", ["failed", "flat", "nested"])
def test_an_error_inside_a_reply_is_read_as_that_error(
    protocol: ProtocolName, stream: bool, shape: str
) -> None:
    error = Error("overloaded", "too busy", "overloaded_error", shape)  # type: ignore[arg-type]
    reply = _reply(_play(Say("half"), error, protocol=protocol, stream=stream), protocol)
    assert isinstance(reply.last, CutWord)
    assert (reply.last.failure.kind, reply.last.failure.message) == ("overloaded", "too busy")


def test_the_shapes_of_an_error_in_responses_differ() -> None:
    bodies = {
        shape: _play(Error(shape=shape), protocol="openai_responses").body
        for shape in ("failed", "flat", "nested")
    }
    assert b'"response.failed"' in bodies["failed"]
    assert b'"type":"error"' in bodies["flat"]
    assert b'"error":{' in bodies["nested"]
    assert len(set(bodies.values())) == 3


@every_protocol
@both_modes
@pytest.mark.parametrize(
    "status, code, kind",
    [
        (429, "rate_limit_exceeded", "rate_limited"),
        (500, "", "server"),
        (401, "", "auth"),
        (402, "", "billing"),
    ],
)
def test_a_status_comes_in_the_error_shape_of_the_protocol(
    protocol: ProtocolName, stream: bool, status: int, code: str, kind: str
) -> None:
    step = Status(status, "no", code, {"retry-after": "7"})
    played = _play(step, protocol=protocol, stream=stream)
    assert played.status == status
    reply = _reply(played, protocol)
    assert isinstance(reply.last, CutWord)
    assert (reply.last.failure.kind, reply.last.failure.message) == (kind, "no")


def test_a_status_after_the_head_can_only_cut() -> None:
    assert _play(Say("a"), Status(500)).end == "fin"


@every_protocol
@pytest.mark.parametrize("what", ["html", "json", "bytes", "text", "empty"])
def test_garbage_is_never_taken_for_a_reply(protocol: ProtocolName, what: str) -> None:
    reply = _reply(_play(Garbage(what), protocol=protocol), protocol)  # type: ignore[arg-type]
    assert isinstance(reply.last, CutWord)
    assert (reply.text, reply.calls) == ("", ())


@every_protocol
@both_modes
def test_a_finish_can_lie_or_say_nothing(protocol: ProtocolName, stream: bool) -> None:
    lie = _reply(_play(Say("a"), Finish("stop", "length"), protocol=protocol, stream=stream), protocol)
    assert lie.finish == "length"
    unknown = _play(Say("a"), Finish("stop", "banana"), protocol=protocol, stream=stream)
    assert b"banana" in unknown.body
    silent = _reply(_play(Say("a"), Finish("none"), protocol=protocol, stream=stream), protocol)
    assert silent.text == "a"
    if protocol != "openai_responses":  # there the terminal event is itself the reason
        assert silent.finish is None


def test_the_terminal_event_can_be_left_out() -> None:
    assert b"[DONE]" not in _play(Say("a"), Finish(terminal=False)).body
    assert b"message_stop" not in _play(Say("a"), Finish(terminal=False), protocol="anthropic").body
    assert (
        b"response.completed" not in _play(Say("a"), Finish(terminal=False), protocol="openai_responses").body
    )


@every_protocol
def test_usage_can_lie_or_be_missing(protocol: ProtocolName) -> None:
    lie = _reply(_play(Say("a"), Finish(usage=Usage(input=1, output=99)), protocol=protocol), protocol)
    assert lie.usage is not None
    assert lie.usage.output == 99
    honest = _reply(_play(Say("a" * 400), Finish(), protocol=protocol), protocol)
    assert honest.usage is not None
    assert honest.usage.output == 101


@every_protocol
def test_comments_and_pings_are_no_content(protocol: ProtocolName) -> None:
    played = _play(Comments(30, 10), Comments(20, 10, "ping"), Say("a"), Finish(), protocol=protocol)
    assert played.seconds == 50
    assert played.body.startswith(b": ")
    assert _reply(played, protocol).text == "a"


@every_protocol
def test_a_plain_answer_is_kept_alive_by_blank_lines(protocol: ProtocolName) -> None:
    played = _play(Comments(30, 10), Say("a"), Finish(), protocol=protocol, stream=False)
    assert played.body.startswith(b"\n\n\n{")
    assert _reply(played, protocol).text == "a"


@pytest.mark.requirement("A11")
@every_protocol
def test_a_document_can_come_where_a_stream_was_asked_for(protocol: ProtocolName) -> None:
    played = _play(Plain(), Say("hello"), Finish(), protocol=protocol)
    assert played.headers["content-type"] == "application/json"
    assert _reply(played, protocol).text == "hello"


def test_a_step_can_be_a_function_of_the_request() -> None:
    def answer(request: LabRequest) -> list[ScriptItem]:
        return [Say(f"{request.protocol} {request.model}"), Finish()]

    assert _reply(_play(Reason("hm"), answer), "openai_chat").text == "openai_chat lab:test"


def test_steps_can_depend_on_protocol_and_mode() -> None:
    script = When("anthropic streaming", (Say("yes"), Finish()), (Say("no"), Finish()))
    assert _reply(_play(script, protocol="anthropic"), "anthropic").text == "yes"
    assert _reply(_play(script, protocol="anthropic", stream=False), "anthropic").text == "no"
    assert _reply(_play(script), "openai_chat").text == "no"


def test_raw_bytes_and_frames_go_out_as_they_are() -> None:
    played = _play(Raw(b"\xff\xfe"), Raw("data: x\n\n"), Frame({"a": 1}, "odd"))
    assert played.body.startswith(b"\xff\xfedata: x\n\n")
    assert played.body.endswith(b'event: odd\ndata: {"a":1}\n\n')


@every_protocol
def test_an_open_call_can_get_more_arguments_later(protocol: ProtocolName) -> None:
    script = (Call("f", '{"a":', closed=False), Stall(300), More("1}"), Finish())
    reply = _reply(_play(*script, protocol=protocol), protocol)
    assert [(call.arguments, call.closed) for call in reply.calls] == [('{"a":1}', True)]


def test_more_arguments_need_an_open_call() -> None:
    with pytest.raises(ScriptError, match="no open call"):
        _play(Say("a"), More("x"))


def test_a_rehearsal_of_an_endless_script_ends() -> None:
    played = rehearse((Say("a"), Comments("forever", 1.0)), _request(), longest=10)
    assert played.end is None
    assert played.body.count(b": keepalive") == 10
