"""Seeing what runs do: metrics, traces and logs, all from the facts that were stored."""
