"""Chosen tests of the live server with two servers on one database, asked in turns: stops, readers that come back, what
is listed. With TURNBUCKLE_TEST_STORE=nodes in the environment every live test runs so, but those of `one_folder`."""

import importlib.util
from pathlib import Path

import pytest
from server.live import test_live_approvals as approvals
from server.live import test_live_changes as changes
from server.live import test_live_disconnect as disconnect
from server.live import test_live_queue as queue
from server.live import test_live_reconnect as reconnect
from server.live import test_live_stop as stop
from support.server.one_folder import LEFT_OUT

WITHIN = (
    reconnect.test_whoever_comes_back_behind_any_event_gets_exactly_the_events_that_follow,
    reconnect.test_readers_that_come_while_events_come_miss_none_and_see_none_twice,
    reconnect.test_a_response_read_again_behind_any_event_is_the_same_to_the_byte,
    stop.test_stopping_twice_and_at_the_same_time_ends_it_once,
    stop.test_a_run_can_be_stopped_while_it_starts,
    stop.test_stopping_a_run_that_has_ended_changes_nothing,
    queue.test_a_run_that_waits_is_taken_back_by_a_stop_and_the_others_stay,
    disconnect.test_of_two_clients_with_one_key_the_last_to_leave_ends_the_run,
    approvals.test_of_many_answers_at_once_one_counts_and_later_ones_change_nothing,
    changes.test_what_one_owner_always_allows_is_asked_of_every_other_and_again_once_it_is_taken_away,
    changes.test_the_model_is_told_in_its_next_turn_that_the_user_has_undone_its_work,
)
OF_PROCESSES = (stop.test_a_tool_that_is_stopped_is_gone_with_all_its_processes,)


def name_of(test):
    return test.__name__.removeprefix("test_")


@pytest.mark.requirement("K2")
@pytest.mark.parametrize("test", WITHIN, ids=name_of)
def test_two_servers_on_one_database_do_the_same(test, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNBUCKLE_TEST_STORE", "nodes")
    test(tmp_path)
    assert not (tmp_path / "data" / "journal.db").exists()


@pytest.mark.process
@pytest.mark.requirement("K2")
@pytest.mark.parametrize("test", OF_PROCESSES, ids=name_of)
def test_two_servers_on_one_database_do_the_same_with_processes(test, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNBUCKLE_TEST_STORE", "nodes")
    test(tmp_path)
    assert not (tmp_path / "data" / "journal.db").exists()


def test_what_is_left_out_on_a_database_is_there_and_has_a_reason():
    for name, why in {name: why for left in LEFT_OUT.values() for name, why in left.items()}.items():
        file, _, test = name.partition(".")
        spec = importlib.util.find_spec(f"server.live.{file}")
        assert spec is not None, name
        assert f"def {test}(" in Path(str(spec.origin)).read_text(), name
        assert len(why) > 20
