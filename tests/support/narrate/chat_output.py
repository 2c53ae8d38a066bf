"""Runs as chat completions, and the parts of what was written."""

from support.narrate.sample_runs import RUN, frames, run_named, whole

from turnbuckle.server.faces.chat.renderer import ChatRenderer
from turnbuckle.server.faces.chat.whole_renderer import WholeChatRenderer

CREATED = 1_790_000_000


def chat(**options):
    return ChatRenderer(RUN, model="agent", created=CREATED, **options)


def plain(run, **options):
    page = WholeChatRenderer(RUN, model="agent", created=CREATED, **options)
    assert page.take(run) == b""
    return page.answer()


def chunks(data):
    return [body for _, body in frames(data) if body is not None and "choices" in body]


def deltas(data, key):
    return [
        choice["delta"][key]
        for chunk in chunks(data)
        for choice in chunk["choices"]
        if choice["delta"].get(key)
    ]


def asides(data, what):
    return [chunk["turnbuckle"][what] for chunk in chunks(data) if what in chunk.get("turnbuckle", ())]


def finishes(data):
    return [
        choice["finish_reason"]
        for chunk in chunks(data)
        for choice in chunk["choices"]
        if choice["finish_reason"]
    ]


def rendered(name, **options):
    return whole(chat(**options), run_named(name))
