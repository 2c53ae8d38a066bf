"""Bodies that a client might send, made up: any JSON at all, and sound requests with one thing changed."""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from turnbuckle.vocab.failure import Failure

texts = st.text(min_size=1, max_size=12).filter(str.strip)
_plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
any_json = st.recursive(
    _plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_DEEP = b"[" * 200 + b"]" * 200
_ODD: "st.SearchStrategy[Any]" = (
    st.sampled_from(
        [None, "", " ", "function", "message", "data:,", 0, -1, 1e308, 10**30, True, [], {}, [[]], [{}]]
    )
    | st.just(_DEEP).map(msgspec.json.decode)
    | any_json
)


def with_one_change(body):
    """The body with the value of one place replaced, or taken away."""
    return st.builds(_changed, st.just(body), st.sampled_from(list(_places(body))), _ODD, st.booleans())


def _places(value, path=()):
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _changed(body, path, value, gone):
    made = copy.deepcopy(body)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if gone:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made


def assert_read_or_refused(found, kind):
    """What was read can be written down and read again; what was refused says why."""
    if isinstance(found, Failure):
        assert (found.kind, found.status, found.retryable) == ("invalid", 400, False)
        assert found.message
        assert found.code
    else:
        assert msgspec.json.decode(msgspec.json.encode(found), type=kind) == found


def drained(value):
    """What the official types say of a body, to the ground: they look into a list only as it is read."""
    if isinstance(value, dict):
        return {key: drained(inner) for key, inner in value.items()}
    return [drained(inner) for inner in value] if isinstance(value, list | tuple | Iterator) else value
