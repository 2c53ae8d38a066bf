"""The parts of `server.py`: provider and load, each in a process of its own, the servers, and what is
measured."""
