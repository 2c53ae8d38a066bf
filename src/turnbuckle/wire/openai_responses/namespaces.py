"""Tools in a namespace, which only this protocol knows. Everywhere else, and among ourselves, a tool goes by
both names in one; to a provider of this protocol it goes as its client wrote it."""

from typing import Any

NAMESPACE = "_namespace"
"""In the state of a tool: what its client wrote of the namespace around it."""


def grouped_name(group: str, name: str) -> str:
    """What a tool of a namespace is called where there are no namespaces."""
    return f"{group}__{name}"


def name_in(group: Any, name: str) -> str:
    """The other way: what a tool is called in its namespace, if it is in one."""
    return name.removeprefix(grouped_name(group, "")) if isinstance(group, str) and group else name


def in_namespaces(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools of a request: neighbours of one namespace are in it again."""
    made: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for tool in tools:
        about = tool.get(NAMESPACE)
        if about is None:
            last = None
            made.append(tool)
            continue
        bare = {key: value for key, value in tool.items() if key != NAMESPACE}
        bare["name"] = name_in(about["name"], tool["name"])
        if last != about:
            last = about
            made.append({"type": "namespace", **about, "tools": []})
        made[-1]["tools"].append(bare)
    return made
