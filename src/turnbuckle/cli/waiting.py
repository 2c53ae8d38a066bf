"""What a run is waiting for, in words for the status line."""

from turnbuckle.narrate.waiting import WaitingFold


def words(waiting: WaitingFold, now: float) -> str:
    """In words; empty when nothing is waited for."""
    on = waiting.on(now)
    if on is None:
        return ""
    passed = _seconds(now - on.since)
    match on.kind:
        case "tool":
            return f"running {on.detail}, {passed}"
        case "approval":
            return f"waiting for an answer about {on.detail}, {passed}"
        case "retry" | "rate_limit":
            return (
                f"waiting {waiting.pause:.0f} s before the next try, {passed}" if waiting.pause >= 1 else ""
            )
        case "storage":
            return f"waiting for the store: {on.detail}, {passed}"
        case "turn":
            return f"{on.detail}, {passed}"
        case "provider_first_token":
            return f"waiting for {waiting.model}, {passed}"
        case "provider" if waiting.doing == "arguments":
            return f"receiving {waiting.call}, {waiting.characters:,} characters, last {passed} ago"
        case "provider":
            doing = "thinking" if waiting.doing == "reasoning" else f"waiting for more from {waiting.model}"
            return f"{doing}, {passed}"


def _seconds(seconds: float) -> str:
    whole = max(int(seconds), 0)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02} s"
