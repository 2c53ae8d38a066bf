"""How calls arrive (the quirks of call fragments)."""

from support.wire.chat_cases.case import Case

LISTED = (("call_w1", "ls", '{"d":"."}'),)
BOOKED = (("function-call-7", "book", '{"seat":1}'),)

CALLS: list[Case] = [
    Case("calls-empty-object-first.sse", calls=(("call_e2", "pay", '{"to":"ann"}'),), finish="calls"),
    Case(
        "calls-equal-objects-one-index.sse",
        calls=(("call_e1", "pay", '{"to":"ann","sum":5}'),),
        finish="calls",
    ),
    Case("calls-gemini-signature-before-the-call.sse", calls=BOOKED, finish="calls"),
    Case("calls-gemini-signature-on-the-delta.sse", calls=BOOKED, finish="calls"),
    Case(
        "calls-new-id-and-name-every-fragment.sse",
        calls=(("f1", "read", '{"at":{"p":"a"}}'),),
        finish="calls",
    ),
    Case(
        "calls-two-entries-of-one-index-in-a-chunk.sse",
        calls=(("d1", "read", '{"p":"a"}'), ("d2", "grep", "{}"), ("d3", "now", "{}")),
        finish="calls",
    ),
    Case(
        "whole-message-behind-its-call.sse", text="Let me look.", calls=LISTED, finish="calls", usage=(20, 9)
    ),
    Case(
        "whole-message-with-other-ids.sse",
        calls=(("call_a1", "ls", '{"d": "."}'), ("call_a2", "ls", '{"d":"b"}')),
        finish="calls",
        usage=(20, 9),
    ),
    Case(
        "whole-message-with-the-last-words.sse", text="It is 4.", calls=LISTED, finish="calls", usage=(20, 9)
    ),
    Case("calls-behind-finish.sse", calls=(("l1", "a", '{"x":1}'),), finish="calls"),
    Case(
        "calls-gemini-signature.sse",
        calls=(("function-call-1408", "book", '{"seat":"12A","meal":"veg"}'),),
        usage=(80, 24),
    ),
    Case(
        "calls-in-finish-chunk.sse",
        calls=(("f1", "a", '{"x":1}'), ("f2", "b", '{"y":2}'), ("f3", "c", "{}")),
        finish="calls",
    ),
    Case(
        "calls-interleaved-by-id-at-one-index.sse",
        calls=(("m1", "read", '{"p":"a"}'), ("m2", "grep", '{"q":"b"}')),
        finish="calls",
    ),
    Case(
        "calls-legacy-function-call.sse",
        calls=(("call_chatcmpl-legacy_0", "add", '{"a":1}'),),
        finish="calls",
    ),
    Case("calls-name-comes-second.sse", calls=(("call_k1", "search", '{"q":"tea"}'),), finish="calls"),
    Case("calls-name-empty-later.sse", calls=(("365174485", "search", '{"q":"tea"}'),), finish="calls"),
    Case("calls-name-in-pieces.sse", calls=(("call_p1", "web_search", '{"q":"tea"}'),), finish="calls"),
    Case("calls-name-repeated.sse", calls=(("call_r1", "search", '{"q":"tea"}'),), finish="calls"),
    Case(
        "calls-new-id-every-fragment.sse",
        calls=(("chatcmpl-tool-1", "read", '{"p":"a.txt"}'),),
        finish="calls",
    ),
    Case(
        "calls-new-ids-before-names.sse",
        calls=(("n1", "read", '{"p":"a"}'), ("n2", "grep", '{"q":"b"}')),
        finish="calls",
    ),
    Case(
        "calls-object-arguments.sse",
        calls=(("call_o1", "add", '{"a":1,"b":[2,3]}'), ("call_o2", "now", "{}")),
        finish="calls",
    ),
    Case(
        "calls-one-index-three-ids.sse",
        calls=(
            ("call_ab12", "stat", '{"path":"a"}'),
            ("call_cd34", "stat", '{"path":"b"}'),
            ("call_ef56", "read", '{"path":"c"}'),
        ),
        finish="calls",
        usage=(61, 40),
    ),
    Case(
        "calls-openrouter-signature.sse",
        calls=(("tool_0_book", "book", '{"seat":"12A"}'),),
        finish="calls",
        usage=(80, 24),
    ),
    Case(
        "calls-same-name-alone-in-chunks.sse",
        calls=(("call_kWgYaZ_0", "ping", '{"host":"a"}'), ("call_kWgYaZ_1", "ping", '{"host":"b"}')),
    ),
    Case(
        "calls-text-around.sse", text="First this.And that.", calls=(("t1", "a", '{"x":1}'),), finish="calls"
    ),
    Case("calls-tool-role-delta.sse", text="Found it."),
    Case(
        "calls-two-objects-one-index.sse",
        calls=(("call_2o", "read", '{"p":"a"}'), ("call_2o_1", "read", '{"p":"b"}')),
        finish="calls",
        usage=(20, 18),
    ),
    Case(
        "calls-with-hollow-ids.sse",
        calls=(
            ("call_chatcmpl-noid_0", "add", '{"a":1}'),
            ("call_chatcmpl-noid_1", "mul", '{"b":2}'),
            ("call_chatcmpl-noid_2", "neg", '{"c":3}'),
        ),
        finish="calls",
    ),
    Case(
        "calls-with-integer-ids.sse",
        calls=(("17", "add", '{"a":1}'), ("18", "add", '{"a":2}')),
        finish="calls",
    ),
    Case(
        "calls-without-id.sse",
        calls=(("call_chatcmpl-noid_0", "add", '{"a":1}'), ("call_chatcmpl-noid_1", "mul", '{"b":2}')),
        finish="calls",
    ),
    Case(
        "calls-without-index-by-id.sse",
        calls=(("call_f1", "read", '{"p":"y"}'), ("call_f2", "grep", '{"q":"x"}')),
        finish="calls",
    ),
    Case(
        "calls-without-index.sse",
        calls=(("D681PevKs", "weather", '{"city": "Paris"}'), ("ZkQ2rTvX1", "weather", '{"city": "Lyon"}')),
        finish="calls",
        usage=(94, 37),
    ),
    Case(
        "calls-zero-arguments-spellings.sse",
        calls=(
            ("z1", "now", ""),
            ("z2", "now", "{}"),
            ("z3", "now", ""),
            ("z4", "now", ""),
            ("z5", "now", ""),
        ),
        finish="calls",
    ),
]
