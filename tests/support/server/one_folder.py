"""Live tests that need one server over one folder by their nature, and why. With TURNBUCKLE_TEST_STORE=nodes or =postgres
all others run on a database; these are left out (`tests/conftest.py`). `test_live_on_nodes.py` checks that each
of them is there."""

from collections.abc import Mapping

NODES: Mapping[str, str] = {
    "test_live_reconnect.test_a_run_whose_end_is_stored_and_cannot_be_read_yet_is_followed_to_it": (
        "it writes into the index of the journal in the folder; the end of a run and its row change together there, too"
    ),
    "test_live_full_disk.test_a_full_file_system_is_told_as_full_and_nothing_is_lost_when_there_is_room_again": (
        "it fills the disk that the journal is on; tests/journal/test_postgres_trouble.py does that with a database"
    ),
}
"""With two servers on one database, asked in turns."""
POSTGRES: Mapping[str, str] = {
    name: why
    for name, why in NODES.items()
    if name.startswith(("test_live_full_disk.", "test_live_reconnect."))
}
"""With one server on a database."""
LEFT_OUT: Mapping[str, Mapping[str, str]] = {"nodes": NODES, "postgres": POSTGRES}
