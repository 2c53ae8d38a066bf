"""A run as people and programs are told of it: facts in, values of one closed union out. Every surface draws
those, and none folds facts itself. Pure."""
