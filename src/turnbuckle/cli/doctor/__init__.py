"""`turnbuckle doctor`."""
