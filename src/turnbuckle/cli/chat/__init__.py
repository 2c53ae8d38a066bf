"""`turnbuckle chat`."""
