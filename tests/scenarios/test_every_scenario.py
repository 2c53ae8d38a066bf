"""Every scenario of the groups P, T, L, S and M has a test by its id, here or in the file that is named for it; those of
P, T and L have a case of the lab too, or a reason why they have none."""

import ast
from pathlib import Path

import pytest

from turnbuckle.lab.cases import CASES

SCENARIOS = (
    "P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P14 P15 P16 P17 P18 P19 P21 P22 P23 P24 P25 P26 P28 P29 P30 P31 P33 P34 "
    "T1 T2 T3 T4 T5 T6 T7 T9 T11 T13 T14 T15 T16 T17 T18 T19 T20 T21 T22 T23 T24 "
    "L1 L2 L3 L4 L6 L7 L8 L9 L10 L11 L12 L13 L14 L15 L16 "
    "S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S15 S16 M1 M2 M3 M4 M5 M6 M7 M8 M9"
).split()

NOT_A_PROVIDER_CASE = {
    "T13": "the process dies while a tool runs; the stream before it was whole",
    "T14": "as T13; what differs is the tool, which has a probe",
    "T15": "the disk is full; the provider has no part in it",
    "T16": "the disk is full when a tool is done",
    "T17": "the process dies between the calls of one whole reply",
    "T18": "somebody stops a command; the reply that asked for it was whole",
    "T19": "as T18; what matters is the command's children",
    "T20": "a tool hangs, not a stream",
    "T21": "a rule says no to a whole call",
    "T22": "a reader stays away; the provider does not know of readers",
    "T24": "a user speaks while a tool runs; a matter of the history",
    "L2": "a matter of the history alone",
    "L3": "a matter of the history alone",
    "L10": "nothing folds a history yet",
    "L16": "there are no sub-agents yet",
}
NOT_DUE = {"L10", "L16"}

TESTS = Path(__file__).parent.parent
PROVED_BY = {
    "S1": ("server/live/test_session_kill.py", "test_kills_in_a_stream_in_a_tool_and_in_the_recovery_itself"),
    "S2": ("server/live/test_live_kill.py", "test_a_killed_server_loses_no_event_that_was_seen"),
    "S3": ("journal/test_sqlite_doctor.py", "test_"),
    "S6": ("lab/test_world_doubt.py", "test_"),
    "S12": ("runtime/test_approvals.py", "test_"),
    "S5": ("server/live/test_session_kill.py", "test_a_server_that_was_paused_for_longer_than_its_lease"),
    "S13": ("server/live/test_live_shutdown.py", "test_"),
    "M1": ("cli/test_two_servers.py", "test_a_second_server_is_refused"),
    "M2": ("runtime/test_session_worker.py", "test_a_process_whose_sessions_passed_to_another"),
    "M3": ("runtime/test_session_worker.py", "test_a_process_whose_sessions_passed_to_another"),
    "M4": ("runtime/test_holding.py", "test_"),
    "M5": ("cli/test_two_servers.py", "test_a_second_server_is_refused"),
    "M9": ("tools/test_shell.py", "test_"),
}
NOT_APPLICABLE = {
    "M6": "one process has a data folder, and clients reach only that one",
    "M8": "one process has a data folder, so what it learns of a provider is known to all its sessions",
}


def _named() -> set[str]:
    names = set()
    for file in sorted(Path(__file__).parent.glob("test_*_scenarios.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{node.name} says neither what is given nor what follows"
                names.add(node.name.split("_")[1])
    return names


def test_every_scenario_has_a_case_of_the_lab_or_a_reason_why_not():
    played = {scenario for case in CASES for scenario in case.scenarios}
    without = {scenario for scenario in SCENARIOS if scenario[0] in "PTL"} - played
    assert without == NOT_A_PROVIDER_CASE.keys()


def test_every_scenario_that_is_due_has_a_test_by_its_id():
    assert set(SCENARIOS) - _named() == NOT_DUE | PROVED_BY.keys() | NOT_APPLICABLE.keys()
    assert _named() <= set(SCENARIOS)


def test_no_case_names_a_scenario_that_is_not_there():
    assert {scenario for case in CASES for scenario in case.scenarios} <= set(SCENARIOS)


@pytest.mark.parametrize("scenario", PROVED_BY)
def test_what_another_file_proves_is_there(scenario):
    file, name = PROVED_BY[scenario]
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert any(found.startswith(name) for found in names)
