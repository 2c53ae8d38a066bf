"""The turn as a pure fold: facts in, commands out. No clock, no network, no randomness; they are handed
in."""
