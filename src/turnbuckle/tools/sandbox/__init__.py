"""Where commands run: behind one port, in bubblewrap or under Landlock and seccomp."""
