"""One live attempt at one route: bytes come in, events go out, and a last word always follows. Nothing here
retries."""
