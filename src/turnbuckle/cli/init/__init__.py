"""`turnbuckle init`."""
