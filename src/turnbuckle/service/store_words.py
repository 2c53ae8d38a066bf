"""What is said about a store that does not do its work: to clients, to readers who wait, and to those who ask
whether the server is ready. Paths and names of streams are for the log alone."""

WORDS: dict[str, str] = {
    "full": "the server's disk is full",
    "read_only": "the server may not write to its data folder or database",
    "out_of_files": "the server has reached its limit of open files",
    "gone": "the server's data folder is gone, or another one took its place",
    "damaged": "the server's journal is damaged",
    "unknown_format": "the server's journal has an unknown format",
    "in_use": "another process has the server's journal",
    "failed": "the server's disk or database reported an error",
    "slow": "the server's disk or database does not answer",
    "away": "the server's database cannot be reached",
    "locked": "somebody holds a lock in the server's database",
}
"""By the fault that an error of the store names."""
TO_DO: dict[str, str] = {
    "full": "make room",
    "read_only": "give it write permission, or a disk or a database server that can be written",
    "out_of_files": "raise its limit of open files",
    "gone": "put the folder back, or start the server again",
    "damaged": "stop the server and run turnbuckle doctor --mend",
    "unknown_format": "run turnbuckle doctor",
    "in_use": "stop the other one, or use another data folder",
    "failed": "check the logs of the server and of the machine",
    "slow": "check the disk, or the database and the network to it",
    "away": "check the database, and the network to it",
    "locked": "end whatever holds the lock",
}
"""What helps, for whoever runs the server."""


def words(fault: str) -> str:
    """What is wrong, in a few words."""
    return WORDS.get(fault, WORDS["failed"])


def code(fault: str) -> str:
    """The same for programs."""
    return f"storage_{fault}"
