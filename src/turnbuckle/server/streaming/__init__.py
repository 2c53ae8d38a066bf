"""From the journal to whoever reads: streams, heartbeats, and what happens when a reader leaves."""
