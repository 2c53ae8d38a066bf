"""A random campaign with real processes. `scripts/campaign` plays it."""
