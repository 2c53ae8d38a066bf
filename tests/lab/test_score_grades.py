"""The grades, each a table: what was wanted, sent and heard, and the mark that this deserves."""

from typing import Any

import msgspec
import pytest

from turnbuckle.lab.score.facts import (
    Again,
    Expectation,
    Heard,
    Played,
    ProviderAttempt,
    SeenCall,
    SentResult,
)
from turnbuckle.lab.score.grades import (
    GRADES,
    comes_back,
    ends,
    frugal,
    grade,
    healed,
    honest,
    kept,
    once,
    untouched,
)
from turnbuckle.lab.score.tale import TALE

SIZE = len(TALE)
HALF = TALE[:200]
ARGUMENTS = {"path": "a.txt", "content": "some words"}
WHOLE_CALL = SeenCall("c1", "write_note", msgspec.json.encode(ARGUMENTS).decode())
HALF_CALL = SeenCall("c1", "write_note", '{"path":"a.txt","content":"some wo')
OTHER_CALL = SeenCall("c2", "write_note", '{"path":"b.txt","content":"some words"}')
TEXT = Expectation(TALE, characters=SIZE)
CALL = Expectation(calls=(ARGUMENTS,), cut_call=True, requests=2, characters=len(WHOLE_CALL.arguments))
OWN = Expectation(TALE, cut_call=True, writes=True, own_tools=True, requests=3, characters=SIZE)

WHOLE = Heard("done", TALE, finish="stop")
STOPPED_HALF = Heard("done", HALF, finish="stop")
FAILED_HALF = Heard("error", HALF, error="the engine failed")
FAILED = Heard("error", error="the engine failed", status=502)
SILENT = Heard("silent", HALF, seconds=30.0)
HANDED = Heard("done", calls=(WHOLE_CALL,), finish="tool_calls")
HANDED_HALF = Heard("done", calls=(HALF_CALL,), finish="tool_calls")

CUT = ProviderAttempt(HALF)
REST = ProviderAttempt(TALE[200:], ended=True)
CLEAN = ProviderAttempt(TALE, ended=True)
CUT_CALL = ProviderAttempt(calls=(HALF_CALL,))
LYING_CALL = ProviderAttempt(calls=(HALF_CALL,), ended=True)
SOUND_CALL = ProviderAttempt(calls=(WHOLE_CALL,), ended=True)


def asked_with(result: str, call: str = "c1") -> ProviderAttempt:
    return ProviderAttempt(TALE, results=(SentResult(call, result),), ended=True)


def play(wanted: Expectation, heard: Heard, *attempts: ProviderAttempt, **more) -> Played:
    return Played(wanted, heard, attempts, **more)


Y, N, NA = True, False, None

ENDS = [
    (play(TEXT, WHOLE), Y),
    (play(TEXT, FAILED), Y),
    (play(TEXT, FAILED_HALF), Y),
    (play(CALL, HANDED), Y),
    (play(TEXT, Heard("done", TALE)), N),
    (play(TEXT, Heard("closed", TALE)), N),
    (play(TEXT, Heard("closed", TALE, finish="stop")), N),
    (play(TEXT, Heard("broken", HALF)), N),
    (play(TEXT, Heard("flood", HALF)), N),
    (play(TEXT, SILENT), N),
]
HONEST = [
    (play(TEXT, WHOLE), Y),
    (play(TEXT, FAILED), Y),
    (play(TEXT, FAILED_HALF), Y),
    (play(TEXT, Heard("done", HALF, finish="length")), Y),
    (play(TEXT, Heard("done", HALF, finish="network_error")), Y),
    (play(TEXT, STOPPED_HALF), N),
    (play(TEXT, Heard("done", HALF)), N),
    (play(TEXT, Heard("done", "Error: the connection was reset", finish="stop")), N),
    (play(TEXT, Heard("done", HALF + TALE[220:], finish="stop")), N),
    (play(TEXT, Heard("done", TALE, finish="length")), N),
    (play(CALL, HANDED), Y),
    (play(CALL, HANDED_HALF), N),
    (play(CALL, Heard("done", calls=(HALF_CALL,), finish="stop")), N),
    (play(CALL, Heard("done", calls=(HALF_CALL,), finish="length")), Y),
    (play(CALL, Heard("done", finish="tool_calls")), N),
    (play(CALL, Heard("done", finish="stop")), N),
    (play(TEXT, SILENT), NA),
    (play(TEXT, Heard("closed", HALF)), NA),
]
KEPT = [
    (play(TEXT, WHOLE, CLEAN), Y),
    (play(TEXT, WHOLE, CUT, REST), Y),
    (play(TEXT, FAILED_HALF, CUT), Y),
    (play(TEXT, SILENT, CUT), Y),
    (play(TEXT, STOPPED_HALF, CUT), Y),  # that it is told as whole is for another grade
    (play(TEXT, Heard("done", HALF + TALE[220:], finish="stop"), CUT, REST), N),
    (play(TEXT, Heard("error", HALF + TALE[220:300]), CUT), N),
    (play(TEXT, STOPPED_HALF, CLEAN), N),
    (play(TEXT, Heard("done", HALF, finish="stop", plain=True), CUT, REST), N),
    (play(TEXT, Heard("done", TALE, finish="stop", plain=True), CUT, REST), Y),
    (play(TEXT, Heard("done", "", finish="stop"), CLEAN), N),
    (play(TEXT, FAILED, CUT), NA),
    (play(CALL, HANDED, SOUND_CALL), NA),
]
ONCE = [
    (play(TEXT, WHOLE), Y),
    (play(TEXT, FAILED_HALF), Y),
    (play(TEXT, Heard("done", HALF + TALE, finish="stop")), N),
    (play(TEXT, Heard("done", HALF + TALE[190:], finish="stop")), N),
    (play(TEXT, Heard("silent", HALF + TALE[:100])), N),
    (play(CALL, HANDED), Y),
    (play(CALL, Heard("done", calls=(WHOLE_CALL, OTHER_CALL), finish="tool_calls")), Y),
    (play(CALL, Heard("done", calls=(WHOLE_CALL, WHOLE_CALL), finish="tool_calls")), N),
    (play(TEXT, FAILED), NA),
]
UNTOUCHED = [
    (play(CALL, HANDED, CUT_CALL, SOUND_CALL), Y),
    (play(CALL, FAILED, CUT_CALL), Y),
    (play(CALL, Heard("error", calls=(HALF_CALL,)), CUT_CALL), Y),
    (play(CALL, Heard("done", calls=(HALF_CALL,), finish="length"), CUT_CALL), Y),
    (play(CALL, HANDED_HALF, LYING_CALL), N),
    (play(CALL, Heard("done", calls=(HALF_CALL,), finish="stop"), CUT_CALL), N),
    (play(OWN, WHOLE, CUT_CALL, CLEAN), Y),
    (play(OWN, WHOLE, CUT_CALL, asked_with("Wrote a.txt.")), N),
    (play(OWN, WHOLE, LYING_CALL, asked_with("Wrote a.txt.")), N),
    (play(OWN, WHOLE, CUT_CALL, asked_with("Error: the arguments are not valid JSON")), Y),
    (play(OWN, WHOLE, CUT_CALL, asked_with("Wrote a.txt.", "c9")), Y),
    (play(OWN, WHOLE, SOUND_CALL, asked_with("Wrote a.txt.")), Y),
    (play(OWN, WHOLE, CUT_CALL, CLEAN, traces="half"), N),
    (play(OWN, FAILED, CUT_CALL, traces="half"), N),
    (play(OWN, FAILED, CUT_CALL, traces="none"), Y),
    (play(OWN, WHOLE, CUT_CALL, CLEAN, traces="whole"), Y),
    (play(OWN, WHOLE, CUT_CALL, asked_with("Wrote a.txt."), traces="whole"), N),
    (play(OWN, WHOLE, CUT_CALL, asked_with("I saw it."), traces="none"), Y),
    (play(OWN, FAILED, CUT_CALL), NA),  # nobody looked, and nothing more was asked
    (play(TEXT, WHOLE, CUT, REST), NA),
]
HEALED = [
    (play(TEXT, WHOLE), Y),
    (play(TEXT, Heard("done", HALF + TALE, finish="stop")), Y),  # the whole, though some of it twice
    (play(TEXT, STOPPED_HALF), N),
    (play(TEXT, FAILED_HALF), N),
    (play(TEXT, Heard("error", TALE)), N),
    (play(TEXT, SILENT), N),
    (play(CALL, HANDED), Y),
    (play(CALL, HANDED_HALF), N),
    (play(CALL, Heard("done", calls=(WHOLE_CALL, OTHER_CALL), finish="tool_calls")), N),
    (play(CALL, Heard("done", calls=(OTHER_CALL,), finish="tool_calls")), N),
    (play(OWN, WHOLE), Y),
    (play(OWN, WHOLE, traces="whole"), Y),
    (play(OWN, WHOLE, traces="none"), N),
    (play(OWN, WHOLE, traces="half"), N),
    (play(Expectation(TALE, heals=False), Heard("done", HALF, finish="length")), NA),
]
FRUGAL = [
    (play(TEXT, WHOLE, CLEAN), Y),
    (play(TEXT, WHOLE, CUT, REST), Y),
    (play(TEXT, WHOLE, CUT, CLEAN), Y),
    (play(TEXT, WHOLE, *[ProviderAttempt()] * 2, CLEAN), Y),
    (play(TEXT, WHOLE, *[ProviderAttempt()] * 3, CLEAN), N),
    (play(TEXT, WHOLE, CLEAN, CLEAN), Y),
    (play(TEXT, WHOLE, CLEAN, CUT, CLEAN), N),
    (play(TEXT, FAILED, *[ProviderAttempt()] * 4), N),
    (play(TEXT, FAILED, CUT), NA),
    (play(TEXT, STOPPED_HALF, CUT), NA),
    (play(Expectation(TALE, heals=False, characters=SIZE), Heard("done", HALF, finish="length"), CUT), NA),
]
COMES_BACK = [
    (play(TEXT, WHOLE, CLEAN, again=Again(True, 0)), Y),
    (play(TEXT, WHOLE, CUT, CLEAN, again=Again(True, 1)), N),
    (play(TEXT, WHOLE, CUT, CLEAN, again=Again(False, 1)), NA),
    (play(TEXT, WHOLE, CLEAN), NA),
]
TABLES: dict[Any, Any] = {
    ends: ENDS,
    honest: HONEST,
    kept: KEPT,
    once: ONCE,
    untouched: UNTOUCHED,
    healed: HEALED,
    frugal: FRUGAL,
    comes_back: COMES_BACK,
}
ROWS = [
    pytest.param(judged, played, given, id=f"{judged.__name__}-{place}")
    for judged, rows in TABLES.items()
    for place, (played, given) in enumerate(rows)
]


@pytest.mark.requirement("H4")
@pytest.mark.parametrize("judged, played, given", ROWS)
def test_a_play_gets_the_mark_that_it_deserves(judged, played: Played, given: bool | None):
    mark = judged(played)
    assert mark.given is given, mark
    assert bool(mark.why) is (given is False)


def test_every_grade_has_a_table_in_which_it_is_given_refused_and_does_not_apply():
    assert set(TABLES) == set(GRADES.values())
    for judged, rows in TABLES.items():
        wanted = {Y, N} if judged is ends else {Y, N, NA}
        assert {given for _, given in rows} == wanted


def test_what_could_not_be_played_gets_no_mark():
    marks = grade(play(OWN, WHOLE, idle="the server has no tool of that kind"))
    assert {mark.given for mark in marks.values()} == {None}
