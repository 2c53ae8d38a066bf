"""Chosen tests of the live server over a journal in a database: kills, stops, restarts, readers that come back. With
TURNBUCKLE_TEST_STORE=postgres in the environment every live test has its journal there."""

import pytest
from server.live import test_live_kill as kill
from server.live import test_live_reconnect as reconnect
from server.live import test_live_shutdown as shutdown
from server.live import test_live_stop as stop

WITHIN = (
    reconnect.test_whoever_comes_back_behind_any_event_gets_exactly_the_events_that_follow,
    reconnect.test_readers_that_come_while_events_come_miss_none_and_see_none_twice,
    reconnect.test_after_a_restart_every_reader_reads_the_same_bytes_as_before,
    stop.test_stopping_twice_and_at_the_same_time_ends_it_once,
    stop.test_a_run_can_be_stopped_while_it_starts,
)
OF_PROCESSES = (
    kill.test_a_killed_server_loses_no_event_that_was_seen_and_its_runs_go_on_by_themselves,
    shutdown.test_what_does_not_end_in_time_is_told_to_every_reader_and_goes_on_after_the_next_start,
)


def name_of(test):
    return test.__name__.removeprefix("test_")


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("test", WITHIN, ids=name_of)
def test_a_server_over_a_database_does_the_same(test, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNBUCKLE_TEST_STORE", "postgres")
    test(tmp_path)
    assert not (tmp_path / "data" / "journal.db").exists()


@pytest.mark.process
@pytest.mark.requirement("K1")
@pytest.mark.parametrize("test", OF_PROCESSES, ids=name_of)
def test_a_server_process_over_a_database_does_the_same(test, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNBUCKLE_TEST_STORE", "postgres")
    test(tmp_path)
    assert not (tmp_path / "data" / "journal.db").exists()
