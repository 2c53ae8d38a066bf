"""Why a host says that it stopped, in our words. Hosts use those of several protocols, and some of their
own."""

from turnbuckle.vocab.events import Finish, FinishNoted, worse
from turnbuckle.vocab.failure import Failure, FailureKind, failure
from turnbuckle.vocab.text_end import ends_like_an_end
from turnbuckle.wire.decoder import EndKind
from turnbuckle.wire.openai_chat.frames import Choice

_WORDS_OF: dict[Finish, str] = {
    "stop": "stop eos eos_token stop_sequence end_turn complete",
    "length": "length max_tokens model_length max_output_tokens",
    "calls": "tool_calls function_call tool_use",
    "filtered": "content_filter content_filtered sensitive safety recitation guardrail_intervened blocklist "
    "prohibited_content spii",
    "refused": "refusal",
    "window": "model_context_window_exceeded",
    "malformed": "malformed_function_call unexpected_tool_call too_many_tool_calls missing_thought_signature",
    "failed": "error network_error abort cancelled insufficient_system_resource repetition",
}
_FINISHES = {word: finish for finish, words in _WORDS_OF.items() for word in words.split()}
_NATIVE = ("failed", "malformed")
"""Reasons that count if they are the only ones, in the upstream's words."""


def finish_of(choice: Choice, native: str) -> tuple[FinishNoted | None, str]:
    """What a choice says about its end, if anything, and the upstream's own word for it as far as it is
    known."""
    said = choice.finish_reason.strip() if isinstance(choice.finish_reason, str) else ""
    given = choice.native_finish_reason
    native = given if isinstance(given, str) and given else native
    noted = FinishNoted(_FINISHES.get(said.lower(), "other"), said, native) if said else None
    if not native:
        return noted, native
    meant = _FINISHES.get(native.lower(), "other")
    if meant != "other" and (said or meant in _NATIVE):
        noted = worse(
            noted, FinishNoted(meant, said, native)
        )  # a router relabels what its upstream could not say
    return noted, native


def bare_end(said: list[str]) -> EndKind:
    """How a text ends for which no reason was given."""
    if not said:
        return "blank"
    return "bare" if ends_like_an_end("".join(said)) else ""


def is_failure(said: object) -> bool:
    """Whether a reason to stop is that the host failed."""
    return isinstance(said, str) and _FINISHES.get(said.strip().lower()) == "failed"


def failed_by(finish: FinishNoted | None) -> Failure:
    """What a host means that gives a failure as its reason to stop."""
    said = (finish.detail or finish.said) if finish is not None else ""
    circling = said.lower() == "repetition"  # the host stopped a model that went round in circles
    kind: FailureKind = "repeated" if circling else "server"
    return failure(kind, f"the provider ended the stream with {said!r}")
