"""Bytes to values and back, without I/O. `open_answer` reads any body that a provider may send."""
