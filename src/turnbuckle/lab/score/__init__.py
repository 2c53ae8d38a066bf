"""The scorecard: broken providers played to any server, and a mark for each."""
