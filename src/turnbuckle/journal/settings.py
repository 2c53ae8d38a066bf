"""What can be set of a process that shares its journal with others."""

from typing import Annotated

from msgspec import Meta, Struct

Label = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


class NodeSettings(Struct, frozen=True):
    """If `data` is a database: this process as one of several on it, see [scale](scale.md)."""

    name: Annotated[
        str, Meta(description="What this node is called in lists. Empty = the name of its machine.")
    ] = ""
    labels: Annotated[
        tuple[Label, ...],
        Meta(description="What this node has that others may not, such as `gpu` or `disk-a`."),
    ] = ()
    needs: Annotated[
        tuple[Label, ...],
        Meta(
            description=(
                "Labels that a session needs once it was first spoken to at this node: only nodes that have "
                "all of them work on it, such as those with the disk of its workspace."
            )
        ),
    ] = ()
    max_runs: Annotated[
        int,
        Meta(
            ge=0,
            description=(
                "How many runs this node drives at the same time. More wait for another node, or until one "
                "ends. 0 = as many as `server.max_runs` allows."
            ),
        ),
    ] = 0
    lease: Annotated[
        float,
        Meta(
            ge=1,
            description=(
                "After how many seconds another node takes over what this one holds, if it stands still or "
                "is cut off from the database. What a dead process held is free at once."
            ),
        ),
    ] = 5.0
