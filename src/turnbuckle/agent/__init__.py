"""Turnbuckle inside another Python program: the same runs and sessions as the server's, without HTTP."""
