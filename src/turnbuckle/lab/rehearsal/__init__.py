"""The rehearsal model: built in, offline, follows simple commands, and fails on demand."""
