"""What can be set for an MCP server."""

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class McpSettings(Struct, frozen=True, omit_defaults=True):
    """An MCP server, under a name of your own: `[tools.mcp.NAME]`. Its tools are called `mcp__NAME__tool`.
    See [MCP servers](tools.md#mcp-servers)."""

    command: Annotated[
        str, Meta(description="The program to start, which speaks MCP on stdin and stdout.")
    ] = ""
    args: Annotated[tuple[str, ...], Meta(description="Its arguments.")] = ()
    env: Annotated[
        dict[str, str],
        Meta(description="Variables for this server alone. Values may be `env:NAME`."),
    ] = {}
    cwd: Annotated[str, Meta(description="The folder that it starts in. Default: the workspace.")] = ""
    url: Annotated[str, Meta(description="Its address, if it is reached by HTTP instead of started.")] = ""
    headers: Annotated[
        dict[str, str], Meta(description="Headers for that address. Values may be `env:NAME`.")
    ] = {}
    network: Annotated[
        bool, Meta(description="Let a server that is started in the sandbox use the network.")
    ] = False
    tools: Annotated[
        tuple[str, ...], Meta(description="Offer these of its tools only, by its own names. Default: all.")
    ] = ()
    start_seconds: Annotated[
        Seconds, Meta(description="Seconds that it has to start and to name its tools.")
    ] = 30.0
    call_seconds: Annotated[Seconds, Meta(description="Seconds that one call may take.")] = 120.0
