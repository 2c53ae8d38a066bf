"""Damage and dialects below the JSON."""

from support.wire.chat_cases.case import Case

FRAMING: list[Case] = [
    Case("framing-foreign-event-among-chunks.sse", text="Hello."),
    Case("whole-message-over-a-hole.sse", text="It is 12345.", skipped=1, verdict="cut_by_transport"),
    Case("framing-bom.sse", text="Hello, wörld. 😀"),
    Case("framing-cr.sse", text="Hello, wörld. 😀"),
    Case("framing-crlf.sse", text="Hello, wörld. 😀"),
    Case("framing-done-with-space.sse", text="Hello."),
    Case("framing-ids-and-names.sse", text="Hello, wörld. 😀"),
    Case("framing-invalid-utf8.sse", text="Hell�� o."),
    Case("framing-line-separator.sse", text="one\u2028two\u2029three\x85four"),
    Case("framing-lone-half-at-end.sse", text="Hi �"),
    Case(
        "framing-malformed-frame-in-call.sse",
        calls=(("q1", "rm", '{"path":"/tmp/'),),
        finish="calls",
        last="cut: garbage",
        verdict="cut_by_transport",
        skipped=1,
    ),
    Case(
        "framing-malformed-frame.sse", text="Hel", skipped=1, last="cut: garbage", verdict="cut_by_transport"
    ),
    Case("framing-multi-line-data.sse", text="Hello."),
    Case("framing-no-space.sse", text="Hello, wörld. 😀"),
    Case("framing-surrogate-halves.sse", text="Hi 😀 you"),
]
