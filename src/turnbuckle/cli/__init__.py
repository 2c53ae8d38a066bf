"""The command line. Modules here load the rest of the package only when a command needs it."""
