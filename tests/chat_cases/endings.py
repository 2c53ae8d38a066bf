"""Finish reasons that lie, are missing, or come in odd places."""

from chat_cases.case import Case

from turnbuckle.vocab.quirks import Quirks

ENDINGS: list[Case] = [
    Case("azure-async-filter.sse", text="Hello there.", usage=(9, 3)),
    Case("azure-filtered-behind-finish.sse", text="Hello there.", finish="filtered", verdict="filtered"),
    Case("azure-first-frame.sse", text="Hello there.", usage=(9, 3)),
    Case("finish-content-filter-empty.sse", finish="filtered", verdict="filtered"),
    Case("finish-empty-string.sse", text="Hello.", finish=None, usage=(9, 3)),
    Case("finish-error.sse", text="Hel", finish="failed", last="cut: server", verdict="cut_by_transport"),
    Case(
        "finish-length-with-call.sse",
        calls=(("c1", "ls", '{"d":"."}'), ("c2", "cat", '{"f":"a')),
        finish="length",
        usage=(50, 40),
        verdict="cut_by_length",
    ),
    Case("finish-malformed-function-call.sse", finish="malformed", verdict="malformed"),
    Case("finish-missing-with-done.sse", text="Hello there.", finish=None),
    Case(
        "finish-missing-without-done.sse",
        text="Hello there and",
        finish=None,
        last="cut: incomplete",
        verdict="cut_by_transport",
    ),
    Case("finish-model-length.sse", text="One, two and thr", finish="length", usage=(10, 4), verdict="cut_by_length"),
    Case(
        "finish-native-network-error.sse",
        finish="failed",
        usage=(12, 0),
        last="cut: server",
        verdict="cut_by_transport",
    ),
    Case(
        "finish-none-host.sse",
        text="Hello there.",
        finish=None,
        last="ended by end of body",
        quirks=Quirks(finishless=True),
    ),
    Case("finish-sensitive.sse", text="One", finish="filtered", verdict="filtered"),
    Case("finish-stop-with-calls.sse", calls=(("chatcmpl-tool-1a", "ls", '{"d":"."}'),), usage=(50, 12)),
    Case(
        "finish-tool-calls-over-cut-json.sse",
        calls=(("chatcmpl-tool-9f", "write_file", '{"path": "a.txt", "content": "hel'),),
        finish="calls",
        usage=(50, 64),
        verdict="cut_by_length",
        cap=64,
    ),
    Case("finish-tool-calls-without-calls.sse", finish="calls", verdict="malformed"),
    Case("finish-window-exceeded.sse", text="One, two", finish="window", verdict="cut_by_length"),
    Case("finish-with-content.sse", text="Hello there."),
    Case("finish-with-usage.sse", text="Hello", usage=(11, 2)),
    Case("finish-without-done.sse", text="Hello there.", last="ended by finish_reason"),
    Case("model-without-id.sse", text="Hello."),
    Case("two-choices.sse", text="One!"),
    Case("usage-groq.sse", text="Hello.", usage=(36, 3)),
    Case("usage-llama-cpp.sse", text="Hello.", usage=(12, 3)),
    Case("usage-on-every-chunk.sse", text="Hello.", usage=(7, 2)),
    Case("without-id-and-model.sse", text="Hello."),
]
