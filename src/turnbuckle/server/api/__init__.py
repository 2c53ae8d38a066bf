"""Our own endpoints: runs, sessions, keys, health, and the console's files."""
