"""`turnbuckle clients`: the lines by which other programs find this server."""
