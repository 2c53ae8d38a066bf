"""The journal: everything that is true, in order, one stream for each run or session. `port` says what it
promises."""
