"""Line ends around texts, and what makes paragraphs of them."""


def gap(before: str, after: str) -> str:
    """What makes a blank line of the place between two texts; nothing, if there is no text before."""
    return "\n" * max(2 - trailing(before) - leading(after), 0) if before else ""


def leading(text: str) -> int:
    """Line ends at its beginning."""
    return len(text) - len(text.lstrip("\n"))


def trailing(text: str) -> int:
    """Line ends at its end."""
    return len(text) - len(text.rstrip("\n"))
