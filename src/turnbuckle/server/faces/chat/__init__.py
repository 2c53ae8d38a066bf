"""Chat Completions."""
