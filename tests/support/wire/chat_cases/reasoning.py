"""Where reasoning lives."""

from support.wire.chat_cases.case import Case

from turnbuckle.vocab.quirks import Quirks

REASONING: list[Case] = [
    Case("reasoning-in-tags-and-in-its-field.sse", text="It is 4.", reasoning="Add them."),
    Case("reasoning-in-two-spellings-apart.sse", text="It is 4.", reasoning="Add them."),
    Case("reasoning-told-again-in-all.sse", text="It is 4.", reasoning="Add them."),
    Case("think-never-closed.sse", text="It is 4, I am sure.", reasoning="It is 4, I am sure."),
    Case(
        "think-never-closed-at-the-cap.sse",
        reasoning="Well, let me see",
        finish="length",
        verdict="thinking_exhausted",
    ),
    Case(
        "think-tag-in-the-middle.sse",
        text="Qwen opens its reasoning with <think> and closes it with </think>.",
    ),
    Case("whole-message-alone.sse", text="It is 4.", reasoning="Add them.", usage=(20, 9)),
    Case("whole-message-as-a-last-delta.sse", text="It is 4."),
    Case("whole-message-behind-its-text.sse", text="It is 4.", reasoning="Add them.", usage=(20, 9)),
    Case("answer-with-think-tags.json", text="Hello.", reasoning="Greet.\n", last="ended by answer"),
    Case("reasoning-beside-content.sse", text="So it is 4.", reasoning="Let me see. Yes."),
    Case("reasoning-both-names.sse", text="It is 4.", reasoning="Add them."),
    Case(
        "reasoning-details-two-types-one-index.sse",
        reasoning="Plan.",
        calls=(("tool_book", "book", '{"seat":1}'),),
        finish="calls",
    ),
    Case("reasoning-details.sse", text="It is 4.", reasoning="Add them.", usage=(20, 9)),
    Case("reasoning-encrypted-only.sse", text="Wait.", calls=(("call_e1", "now", "{}"),), finish="calls"),
    Case("reasoning-mistral-list.sse", text="It is 4.", reasoning="Add them.", usage=(8, 12)),
    Case("reasoning-thinking-field.sse", text="It is 4.", reasoning="Add them."),
    Case(
        "reasoning-until-length.sse",
        reasoning="Well, let me think about that again and",
        finish="length",
        usage=(30, 64),
        verdict="thinking_exhausted",
    ),
    Case("reasoning-vllm.sse", text="It is 4.", reasoning="Add them.", usage=(20, 9)),
    Case("think-opening-missing.sse", text="It is 4.", reasoning="Add them.\n", quirks=Quirks(think="open")),
    Case("think-other-tags.sse", text="It is 4.", reasoning="Add them."),
    Case("think-tag-in-code.sse", text="Write `<think>` and `</think>` around it."),
    Case("think-tags-split.sse", text="It is 4, a < b.", reasoning="Add a < b. Now"),
    Case(
        "think-then-call.sse", reasoning="List it.", calls=(("call_t1", "ls", '{"d":"."}'),), finish="calls"
    ),
]
