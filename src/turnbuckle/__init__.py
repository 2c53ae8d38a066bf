"""Turnbuckle: an LLM agent runtime and server for streams that break."""

__version__ = "0.1.0"
