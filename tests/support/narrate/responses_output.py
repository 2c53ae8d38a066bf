"""Runs as responses, and the parts of what was written."""

from support.narrate.sample_runs import RUN, frames, run_named, whole

from turnbuckle.server.faces.responses.renderer import ResponsesRenderer

CREATED = 1_790_000_000


def response(**options):
    return ResponsesRenderer(RUN, model="agent", created=CREATED, **options)


def rendered(name, **options):
    return whole(response(**options), run_named(name))


def events(data):
    read = frames(data)
    assert all(name == body["type"] for name, body in read)
    return [body for _, body in read]


def final(name, **options):
    return events(rendered(name, **options))[-1]["response"]


def outline(output):
    """The kinds of items, with what tells them apart."""
    made = []
    for item in output:
        match item["type"]:
            case "message":
                (part,) = item["content"]
                made.append(("says", part.get("text", part.get("refusal"))))
            case "reasoning":
                made.append(("thinks", "".join(part["text"] for part in item["summary"])))
            case "mcp_call":
                made.append(("runs", item["name"]))
            case "function_call":
                made.append(("calls", item["call_id"]))
            case "function_call_output":
                made.append(("gets", item["call_id"]))
    return made
