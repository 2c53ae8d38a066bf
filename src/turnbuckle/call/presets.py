"""Where well-known providers are, what they speak, and how they differ from the book.

A preset says only what its provider needs said. Output caps are given where the protocol wants one, or where
the provider's own default is too small for a large call.
"""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks


class Preset(Struct, frozen=True):
    """`key` is the environment variable that usually holds the key. `cap_most`: how far the cap can be
    raised."""

    protocol: ProtocolName | None = None
    base_url: str = ""
    key: str = ""
    quirks: Quirks = Quirks()
    cap: int | None = None
    cap_most: int | None = None


_OLD_CAP = Quirks(output_cap_field="max_tokens")
_REASONING_CONTENT = Quirks(output_cap_field="max_tokens", reasoning_field="reasoning_content")
_REASONING = Quirks(output_cap_field="max_tokens", reasoning_field="reasoning")

# Models on the own machine are mostly small: they finish a cut call as plain text, and where the server goes
# on behind the beginning of an answer, that is the best way.
_OLLAMA = replace(_REASONING, drafts="text", bare_done=True)
_LMSTUDIO = replace(_OLD_CAP, drafts="text")
_VLLM = replace(_REASONING, drafts="text", prefill="continue_final_message")
_SGLANG = replace(_REASONING_CONTENT, drafts="text", prefill="continue_final_message")
_LLAMA = replace(_REASONING_CONTENT, drafts="text", prefill="plain")


def _chat(
    base_url: str,
    key: str = "",
    quirks: Quirks = _OLD_CAP,
    cap: int | None = None,
    cap_most: int | None = None,
) -> Preset:
    return Preset("openai_chat", base_url, key, quirks, cap, cap_most)


PRESETS: dict[str, Preset] = {
    "openai": Preset("openai_responses", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-chat": _chat("https://api.openai.com/v1", "OPENAI_API_KEY", Quirks()),
    "anthropic": Preset(
        "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", cap=32_000, cap_most=64_000
    ),
    "azure": _chat("", "AZURE_OPENAI_API_KEY", Quirks()),  # each resource has an address of its own
    "openrouter": _chat(
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        Quirks(output_cap_field="max_tokens", reasoning_field="reasoning_details"),
    ),
    "deepseek": _chat(
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        Quirks(output_cap_field="max_tokens", reasoning_field="reasoning_content", reasoning_with_calls=True),
        32_768,
        65_536,
    ),
    "gemini": Preset(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        Quirks(signature_fallback=True),
    ),
    "gemini-chat": _chat(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        Quirks(output_cap_field="max_tokens", stream_usage=False, signature_fallback=True),
    ),
    "mistral": _chat(
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        Quirks(
            output_cap_field="max_tokens", stream_usage=False, short_call_ids=True, text_after_tools=False
        ),
    ),
    "groq": _chat("https://api.groq.com/openai/v1", "GROQ_API_KEY", Quirks()),
    "xai": _chat("https://api.x.ai/v1", "XAI_API_KEY", Quirks()),
    "moonshot": _chat("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", _REASONING_CONTENT, 32_000),
    "dashscope": _chat("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "zai": _chat("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    "minimax": _chat("https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    "together": _chat("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": _chat(
        "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", cap=16_384, cap_most=32_768
    ),
    "cerebras": _chat("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", Quirks()),
    "huggingface": _chat("https://router.huggingface.co/v1", "HF_TOKEN"),
    # On the own machine
    "ollama": _chat("http://localhost:11434/v1", "OLLAMA_API_KEY", _OLLAMA),
    "lmstudio": _chat("http://localhost:1234/v1", "LMSTUDIO_API_KEY", _LMSTUDIO),
    "vllm": _chat("http://localhost:8000/v1", "VLLM_API_KEY", _VLLM),
    "sglang": _chat("http://localhost:30000/v1", "SGLANG_API_KEY", _SGLANG),
    "llama.cpp": _chat("http://localhost:8080/v1", "LLAMA_API_KEY", _LLAMA),
    "litellm": _chat("http://localhost:4000/v1", "LITELLM_API_KEY"),
}
