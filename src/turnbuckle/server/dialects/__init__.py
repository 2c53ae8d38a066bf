"""Facts to bytes, one dialect for each surface. Pure folds: the same items give the same bytes, however they come."""
