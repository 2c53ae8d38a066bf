"""The web console: a page over the runs and sessions API, in plain modules that a browser takes as they are.

Everything is in `static/`. The page knows nothing that the API does not tell anybody else.
"""
