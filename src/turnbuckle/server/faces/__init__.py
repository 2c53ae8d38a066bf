"""One folder for each client protocol: what it may ask, and a run as it is told there. Pure folds: the same
items give the same bytes."""
