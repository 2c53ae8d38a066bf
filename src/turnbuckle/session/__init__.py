"""Sessions as a pure fold: what was said to one, what became of it, and what is due."""
