"""The book: bodies on which the official package agrees with us, streamed and plain."""

from chat_cases.case import Case

CLEAN: list[Case] = [
    Case(
        "clean-content-filter.json",
        text="The first step",
        finish="filtered",
        usage=(30, 3),
        last="ended by answer",
        verdict="filtered",
    ),
    Case("clean-content-filter.sse", text="The first step", finish="filtered", usage=(30, 3), verdict="filtered"),
    Case(
        "clean-interleaved-calls.json",
        calls=(("call_I0", "add", '{"a":1,"b":2}'), ("call_I1", "mul", '{"a":3,"b":4}')),
        finish="calls",
        usage=(64, 31),
        last="ended by answer",
    ),
    Case(
        "clean-interleaved-calls.sse",
        calls=(("call_I0", "add", '{"a":1,"b":2}'), ("call_I1", "mul", '{"a":3,"b":4}')),
        finish="calls",
        usage=(64, 31),
    ),
    Case(
        "clean-length.json",
        text="One, two, thr",
        finish="length",
        usage=(12, 4),
        last="ended by answer",
        verdict="cut_by_length",
    ),
    Case("clean-length.sse", text="One, two, thr", finish="length", usage=(12, 4), verdict="cut_by_length"),
    Case(
        "clean-one-call.json",
        calls=(("call_7Yp3", "read_file", '{"path":"notes.md"}'),),
        finish="calls",
        usage=(88, 15),
        last="ended by answer",
    ),
    Case(
        "clean-one-call.sse", calls=(("call_7Yp3", "read_file", '{"path":"notes.md"}'),), finish="calls", usage=(88, 15)
    ),
    Case(
        "clean-parallel-calls.json",
        calls=(("call_A1", "weather", '{"city": "Wien"}'), ("call_B2", "weather", '{"city": "Graz"}')),
        finish="calls",
        usage=(91, 33),
        last="ended by answer",
    ),
    Case(
        "clean-parallel-calls.sse",
        calls=(("call_A1", "weather", '{"city": "Wien"}'), ("call_B2", "weather", '{"city": "Graz"}')),
        finish="calls",
        usage=(91, 33),
    ),
    Case(
        "clean-reasoning-content.json",
        text="It is 4.",
        reasoning="Two plus two.",
        usage=(70, 9),
        last="ended by answer",
    ),
    Case("clean-reasoning-content.sse", text="It is 4.", reasoning="Two plus two.", usage=(70, 9)),
    Case(
        "clean-refusal.json",
        refusal="I can’t help with that.",
        usage=(40, 8),
        last="ended by answer",
        verdict="refused",
    ),
    Case("clean-refusal.sse", refusal="I can’t help with that.", usage=(40, 8), verdict="refused"),
    Case(
        "clean-text-then-call.json",
        text="I will look.",
        calls=(("call_L9", "list_files", '{"dir":"src"}'),),
        finish="calls",
        usage=(70, 22),
        last="ended by answer",
    ),
    Case(
        "clean-text-then-call.sse",
        text="I will look.",
        calls=(("call_L9", "list_files", '{"dir":"src"}'),),
        finish="calls",
        usage=(70, 22),
    ),
    Case("clean-text.json", text="Salzburg is 😀 nice,\nisn’t it?", usage=(19, 9), last="ended by answer"),
    Case("clean-text.sse", text="Salzburg is 😀 nice,\nisn’t it?", usage=(19, 9)),
    Case(
        "clean-zero-arguments.json",
        calls=(("call_N0", "now", "{}"),),
        finish="calls",
        usage=(50, 10),
        last="ended by answer",
    ),
    Case("clean-zero-arguments.sse", calls=(("call_N0", "now", "{}"),), finish="calls", usage=(50, 10)),
]
