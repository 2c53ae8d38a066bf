"""Fields of a request that another protocol knows too, under the same name or another.

Only what any provider of the other protocol takes is said in its words. Many hosts of Chat Completions refuse
a field that they do not know, and clients of Responses send some with every request; so those are named as
left out, and the request goes through.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks

Fields = Mapping[str, Any]
_CALLED: dict[ProtocolName, dict[str, str]] = {
    "openai_chat": {"parallel_calls": "parallel_tool_calls", "strict": "tools.strict"},
    "openai_responses": {
        "parallel_calls": "parallel_tool_calls",
        "response_format": "text.format",
        "strict": "tools.strict",
    },
    "anthropic": {
        "stop": "stop_sequences",
        "parallel_calls": "tool_choice.disable_parallel_tool_use",
        "response_format": "output_config.format",
        "strict": "tools.strict",
    },
}
"""How clients call our options, where that is another name."""
_LOGPROBS = "message.output_text.logprobs"
_LONGEST_USER = 256
_INT32 = 1 << 31
_SAME_IN_RESPONSES = (
    "metadata",
    "user",
    "service_tier",
    "safety_identifier",
    "store",
    "prompt_cache_key",
    "prompt_cache_retention",
)
_GENERATION = {
    "seed": "seed",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}


_USUAL = Quirks()


class OtherWords(dict[str, Any]):
    """Fields in the words of another protocol. `of` are the names of those that they stand for."""

    def __init__(self) -> None:
        super().__init__()
        self.of: set[str] = set()

    def say(self, said: Mapping[str, Any], *names: str) -> None:
        self.update(said)
        self.of.update(names)


def in_words_of(
    protocol: ProtocolName, spoken: ProtocolName, fields: Fields, quirks: Quirks = _USUAL
) -> OtherWords:
    """What of these fields of a client's request a provider of this protocol can be told."""
    made = OtherWords()
    translate = _TRANSLATIONS.get((spoken, protocol))
    if translate is not None:
        given = {name: value for name, value in fields.items() if value is not None}
        if protocol == "anthropic" and not quirks.sampling:
            given.pop("top_k", None)
        translate(given, made)
    return made


def named_by_client(spoken: ProtocolName, options: Iterable[str]) -> tuple[str, ...]:
    """The names of options in a client's own words."""
    names = _CALLED.get(spoken, {})
    return tuple(names.get(option, option) for option in options)


def _chat_to_responses(fields: Fields, made: OtherWords) -> None:
    for name in _SAME_IN_RESPONSES:
        if name in fields:
            made.say({name: fields[name]}, name)
    if isinstance(fields.get("verbosity"), str):
        made.say({"text": {"verbosity": fields["verbosity"]}}, "verbosity")
    if fields.get("logprobs") is False:
        made.say({}, "logprobs")
    elif fields.get("logprobs") is True:
        made.say({"include": [_LOGPROBS], "top_logprobs": fields.get("top_logprobs", 0)}, "logprobs")
        made.say({}, "top_logprobs")


def _responses_to_chat(fields: Fields, made: OtherWords) -> None:
    included = fields.get("include")
    wanted = isinstance(included, list) and _LOGPROBS in included
    if wanted or fields.get("top_logprobs"):
        most = {"top_logprobs": fields["top_logprobs"]} if fields.get("top_logprobs") else {}
        made.say({"logprobs": True, **most}, "top_logprobs")
        if included == [_LOGPROBS]:
            made.say({}, "include")


def _openai_to_messages(fields: Fields, made: OtherWords) -> None:
    for name in ("safety_identifier", "user"):  # the older name, if both are there and differ, is left out
        user = fields.get(name)
        fits = isinstance(user, str) and 0 < len(user) <= _LONGEST_USER
        if fits and made.setdefault("metadata", {"user_id": user}) == {"user_id": user}:
            made.say({}, name)
    if _fits("top_k", fields.get("top_k")):
        made.say({"top_k": fields["top_k"]}, "top_k")


def _fits(name: str, value: Any) -> bool:
    """Whether others take this value, too. Chat hosts know a `top_k` of -1 or 0 as none, and longer seeds; a
    provider that refuses them would fail what goes well without."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if name == "top_k":
        return isinstance(value, int) and value > 0
    return name != "seed" or -_INT32 <= value < _INT32


def _to_gemini(fields: Fields, made: OtherWords) -> None:
    found = {
        _GENERATION[name]: (name, value)
        for name, value in fields.items()
        if name in _GENERATION and _fits(name, value)
    }
    if found:
        config = {name: value for name, (_, value) in found.items()}
        made.say({"generationConfig": config}, *(name for name, _ in found.values()))


_TRANSLATIONS: dict[tuple[ProtocolName, ProtocolName], Callable[[Fields, OtherWords], None]] = {
    ("openai_chat", "openai_responses"): _chat_to_responses,
    ("openai_responses", "openai_chat"): _responses_to_chat,
    ("openai_chat", "anthropic"): _openai_to_messages,
    ("openai_responses", "anthropic"): _openai_to_messages,
    ("openai_chat", "gemini"): _to_gemini,
    ("anthropic", "gemini"): _to_gemini,
}
