"""Tools of MCP servers: programs of somebody else that are started in the sandbox and talked to."""
