"""Errors inside a 200, and bodies that are no stream."""

from support.wire.chat_cases.case import Case

ERRORS: list[Case] = [
    Case(
        "answer-behind-blank-lines.json",
        text="Hello.",
        reasoning="Greet.",
        usage=(6, 3),
        last="ended by answer",
    ),
    Case("answer-in-provider.json", text="Hello.", usage=(5, 2), last="ended by answer"),
    Case("error-behind-finish.sse", text="Hello.", last="cut: server", verdict="cut_by_transport"),
    Case("error-choices-null.json", finish=None, last="cut: garbage", verdict="cut_by_transport"),
    Case("error-context-overflow.sse", finish=None, last="cut: context, final", verdict="cut_by_transport"),
    Case("error-finish-error-answer.json", finish="failed", last="cut: server", verdict="cut_by_transport"),
    Case("error-gemini-array.json", finish=None, last="cut: rate_limited", verdict="cut_by_transport"),
    Case("error-html-page.sse", finish=None, last="cut: garbage", verdict="cut_by_transport"),
    Case(
        "error-litellm-then-done.sse", text="Hel", finish=None, last="cut: reset", verdict="cut_by_transport"
    ),
    Case("error-llama-cpp.sse", text="Hel", finish=None, last="cut: server", verdict="cut_by_transport"),
    Case("error-lm-studio.sse", finish=None, last="cut: server", verdict="cut_by_transport"),
    Case("error-minimax.sse", finish=None, last="cut: billing, final", verdict="cut_by_transport"),
    Case(
        "error-named-event.sse", text="Hel", finish=None, last="cut: overloaded", verdict="cut_by_transport"
    ),
    Case(
        "error-ollama-empty-chunk.sse",
        text="Hel",
        finish=None,
        last="cut: incomplete",
        verdict="cut_by_transport",
    ),
    Case(
        "error-openrouter-rate-limit.sse",
        finish="failed",
        last="cut: rate_limited",
        verdict="cut_by_transport",
    ),
    Case("error-openrouter.sse", text="Hel", finish="failed", last="cut: server", verdict="cut_by_transport"),
    Case("error-plain-json.json", finish=None, last="cut: unstreamable, final", verdict="cut_by_transport"),
    Case("error-plain-text.sse", finish=None, last="cut: garbage", verdict="cut_by_transport"),
    Case("error-text.sse", finish=None, last="cut: server", verdict="cut_by_transport"),
    Case("error-vllm-then-done.sse", text="Hel", finish=None, last="cut: server", verdict="cut_by_transport"),
]
