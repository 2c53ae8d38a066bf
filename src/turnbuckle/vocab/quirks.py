"""How one endpoint differs from its protocol's book. Data, set per route; the defaults are the book."""

from typing import Literal, get_args

from msgspec import Struct

CapField = Literal["max_tokens", "max_completion_tokens"]
CAP_FIELDS: tuple[CapField, ...] = get_args(CapField)


class Quirks(Struct, frozen=True):
    """Every field is one way in which real servers differ. See `docs/quirks.md`."""

    # Reading
    think: Literal["auto", "open", "off"] = "auto"
    """Inline think tags in content: found when they appear, assumed open from the first character
    (the template swallowed the opening tag), or left alone."""
    bare_done: bool = False
    """The host gives no reason to stop: `[DONE]` alone ends a reply, if it has no calls."""
    finishless: bool = False
    """The host never says why it stopped, nor `[DONE]`: a tidy end of the body ends a reply, if it has no
    calls."""

    # Asking, all protocols
    eager_arguments: bool = True
    """Ask for arguments as they are generated, where the protocol has a way to ask."""

    drafts: Literal["calls", "text"] = "calls"
    """How a call that was cut is finished first: by `finish_call`, or as plain text, which small models can
    do."""

    # Asking, Chat Completions
    prefill: Literal["", "plain", "continue_final_message", "prefix", "partial"] = ""
    """How this host goes on behind the last assistant message: always, or by a flag. Empty: it does not."""
    output_cap_field: CapField = "max_completion_tokens"
    """How this host calls the output cap. That is OpenAI's name for it; a route to anybody else is given
    `max_tokens`, the only one that most servers know."""
    stream_usage: bool = True
    """Send `stream_options.include_usage`; Gemini's compatible endpoint refuses it."""
    system_role: Literal["system", "developer"] = "system"
    reasoning_field: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    """Where this host wants earlier reasoning back. Empty: it does not want it."""
    reasoning_with_calls: bool = False
    """DeepSeek: every assistant message with calls must carry its reasoning, even if empty."""
    short_call_ids: bool = False
    """Mistral: call ids are nine letters or digits."""
    longest_call_id: int = 0
    """OpenAI counts the characters of call ids. 0: they may have any length."""
    signature_fallback: bool = False
    """Gemini: a call from elsewhere needs a stand-in thought signature."""
    text_after_tools: bool = True
    """False for Mistral: no user message directly behind a tool message."""

    # Asking, Anthropic
    anthropic_version: str = "2026-10-21"
    sampling: bool = False
    """Send temperature and top_p. From version 2026-10-21 on the API refuses them."""
    anthropic_auth: Literal["bearer", "x-api-key"] = "bearer"

    # Asking, Responses
    stored: bool = False
    """Let the provider store the response. Off: encrypted reasoning is asked for and sent back."""

    # Asking, prompt caches
    prompt_cache_key: bool = False
    """The host finds the cache of a session by `prompt_cache_key`, as OpenAI's do."""
    cache_marks: bool = True
    """Mark where the host may keep a prompt of the agent's for the next request (`cache_control`)."""
