"""Chat Completions: frames to events.

The terminal event. A stream has ended when a finish reason arrived and the body then ends tidily or says
`[DONE]`. `[DONE]` alone also ends it, since some hosts never give a reason, unless an error came first. A tidy
end of the body with neither is a cut: proxies end bodies tidily all the time. Where a host is known to give neither
(`finishless`), it ends a reply of text, but never one with calls: nobody could tell half of them from all.

Blocks. The wire has none, so they are made here: a new block begins when the kind of content changes. Calls are
closed only at the end, because fragments of parallel calls interleave and some servers send the last of them
behind the finish reason.
"""

from typing import Any

import msgspec

from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    Cut,
    Ended,
    Event,
    Finish,
    FinishNoted,
    LastWord,
    ReasoningDelta,
    RefusalDelta,
    Skipped,
    Started,
    StateNoted,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.failure import FailureKind, failure
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire import failures
from turnbuckle.wire.decoder import ALIVE
from turnbuckle.wire.openai_chat.calls import CallMerger
from turnbuckle.wire.openai_chat.details import ReasoningDetails
from turnbuckle.wire.openai_chat.frames import CHUNK, Choice, Chunk, Delta, ToolCall
from turnbuckle.wire.payload import Unreadable, read_any, reread, sample
from turnbuckle.wire.sse import Frame
from turnbuckle.wire.think import ThinkSplitter
from turnbuckle.wire.usage import usage_from_openai

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
_PING = Alive("ping")
_LIFECYCLE = Alive("lifecycle")


class ChatDialect:
    """One stream's state. See the module's text for the rules."""

    def __init__(self, quirks: Quirks = Quirks()) -> None:  # noqa: B008 (a frozen value)
        self.loose = False
        self.reply_id = ""
        self._decode = CHUNK.decode
        self._model = ""
        self._quirks = quirks
        self._think = ThinkSplitter(quirks.think)
        self._details = ReasoningDetails()
        self._merger = CallMerger(self._number_call)
        self._blocks = 0
        self._text = self._reasoning = self._refusal = -1  # the open block of each kind
        self._closable: list[int] = []
        self._details_block = -1
        self._plain_reasoning = False  # it came in a field of its own, not only in the details
        self._finish: FinishNoted | None = None
        self._native = ""

    def frames(self, batch: list[Frame], out: list[Event]) -> LastWord | None:
        decode, append = self._decode, out.append
        text = self._plain_text()
        for name, data in batch:
            if data is None:
                append(ALIVE[name])
                continue
            try:
                chunk = decode(data)
            except Unreadable as problem:
                chunk_or_last = self._read_again(name, data, problem, out)
                if chunk_or_last is None:
                    continue
                if not isinstance(chunk_or_last, Chunk):
                    return chunk_or_last
                chunk = chunk_or_last
            choices = chunk.choices
            if choices is not None and len(choices) == 1 and chunk.usage is None and chunk.error is None:
                # The token's way: one more piece of the open text or of an open call, and nothing else.
                choice = choices[0]
                delta = choice.delta
                if delta is not None and choice.finish_reason is None and not choice.index:
                    piece = delta.content
                    if delta.tool_calls is not None:
                        if not piece and self._take_argument_piece(delta, delta.tool_calls, out):
                            continue
                    elif (
                        text >= 0
                        and piece.__class__ is str
                        and piece
                        and "<" not in piece
                        and "◁" not in piece
                        and "`" not in piece
                        and delta.reasoning_content is None
                        and delta.reasoning is None
                        and delta.reasoning_details is None
                        and delta.thinking is None
                        and delta.refusal is None
                        and delta.function_call is None
                        and delta.role != "tool"
                    ):
                        append(TextDelta(text, piece))
                        continue
            last = self._take_chunk(name, chunk, data, out)
            if last is not None:
                return last
            text = self._plain_text()
        return None

    def _plain_text(self) -> int:
        """The block that plain text goes to without another look; -1 if there is none at present."""
        plain = self._reasoning < 0 and self._think.plain and self._model
        return self._text if plain else -1

    def _take_argument_piece(self, delta: Delta, calls: list[ToolCall], out: list[Event]) -> bool:
        """The usual fragment: more arguments of the call at a known index. False if it is anything else."""
        if len(calls) != 1 or delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            return False
        if delta.thinking or delta.refusal:
            return False
        found = calls[0]
        function = found.function
        if function is None or found.id or function.name:
            return False
        if found.extra_content is not None or found.thoughtSignature is not None:
            return False
        call = self._merger.at_index.get(found.index)
        piece = function.arguments
        if call is None or piece.__class__ is not str or not piece:
            return False
        call.pieces.append(piece)
        out.append(CallArgs(call.block, piece))
        return True

    def _take_chunk(self, name: bytes, chunk: Chunk, data: bytes, out: list[Event]) -> LastWord | None:
        before = len(out)
        choices = chunk.choices
        if not (self.reply_id and self._model) and (chunk.id is not None or chunk.model):
            self._note_start(chunk, out)
        choice = self._main_choice(choices) if choices else None
        if choice is not None:
            delta = choice.delta if choice.delta is not None else choice.message
            if delta is not None:
                self._take_delta(delta, out)
            if choice.finish_reason or choice.native_finish_reason:
                self._note_finish(choice, out)
        if chunk.usage or chunk.x_groq:
            self._note_usage(chunk, out)
        if chunk.error or chunk.base_resp or chunk.x_groq or choices is None or name == b"error":
            last = self._error(name, chunk, data)
            if last is not None:
                return last
        if len(out) == before:
            out.append(_PING if choices else _LIFECYCLE)
        return None

    def answer(self, document: object, out: list[Event]) -> LastWord:
        error = failures.error_in(document)
        if error is not None:
            return Cut(failures.from_error(error))
        if isinstance(document, dict) and not document.get("choices") and isinstance(document.get("provider"), dict):
            document = document["provider"]  # a router's envelope around the real completion
        try:
            answer = msgspec.convert(document, Chunk)
        except Unreadable as problem:
            return Cut(failure("garbage", f"not a chat completion: {problem}", said=_shown(document)))
        choice = self._main_choice(answer.choices or [])
        message = choice.message if choice is not None else None
        if choice is None or message is None:
            return Cut(failure("garbage", "an answer without choices", said=_shown(document)))
        self._note_start(answer, out)
        self._take_delta(message, out)
        self._note_finish(choice, out)
        self._note_usage(answer, out)
        return self._ended(out, "answer")

    def end(self, out: list[Event]) -> LastWord:
        if self._finish is not None:
            return self._ended(out, "finish_reason")
        if self._quirks.finishless and not self._merger.calls:
            return Ended("end of body")  # but nothing says that a block, or what is held back, is whole
        return Cut(failures.incomplete("the stream ended without a finish reason and without [DONE]"))

    def cut(self, out: list[Event]) -> None:
        """Nothing: what is held back could have become something else."""

    # Content

    def _take_delta(self, delta: Delta, out: list[Event]) -> None:
        if delta.role == "tool":
            return  # what a provider's own tool found (MiniMax's search); not the model's words
        reasoning = delta.reasoning_content or delta.reasoning or delta.thinking
        content = delta.content
        if reasoning or delta.reasoning_details:
            self._take_reasoning(reasoning, delta, out)
            if content:
                self._take_content(content, out, beside=True)
        elif content:
            self._take_content(content, out)
        if delta.tool_calls:
            self._release_held(out)  # no tag goes on behind a call, and the order is kept
            self._text = self._reasoning = -1
            for place, found in enumerate(delta.tool_calls):
                self._merger.fragment(found, place, out)
        if delta.function_call is not None:
            self._merger.fragment(ToolCall(index=0, function=delta.function_call), 0, out)
        if delta.refusal:
            if self._refusal < 0:
                self._refusal = self._next_text_block()
            out.append(RefusalDelta(self._refusal, delta.refusal))

    def _take_content(self, content: str | list[Any], out: list[Event], *, beside: bool = False) -> None:
        if not isinstance(content, str):
            self._take_parts(content, out)
            return
        think = self._think
        if think.plain and "<" not in content and "◁" not in content:
            if "`" in content:
                think.count_code(content)
            self._take_text(content, out, beside)
            return
        for kind, text in think.feed(content):
            if kind == "text":
                self._take_text(text, out, beside)
            else:
                self._take_thought(text, out, beside)

    def _take_parts(self, parts: list[Any], out: list[Event]) -> None:
        for part in parts:
            if isinstance(part, str):
                self._take_content(part, out)
            elif isinstance(part, dict) and part.get("type") in ("text", "output_text") and part.get("text"):
                self._take_content(str(part["text"]), out)
            elif isinstance(part, dict) and part.get("type") == "thinking":
                inner = part.get("thinking")
                pieces = inner if isinstance(inner, list) else [inner]
                texts = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
                self._take_thought("".join(text for text in texts if isinstance(text, str)), out, False)

    def _take_reasoning(self, reasoning: str | dict[str, Any] | None, delta: Delta, out: list[Event]) -> None:
        text = reasoning if isinstance(reasoning, str) else ""
        if isinstance(reasoning, dict):
            text = str(reasoning.get("content") or reasoning.get("text") or "")
        if delta.reasoning_details:
            # The same text often stands in both places; it is one reasoning, and the plain one is heard.
            detail_text = self._details.add(delta.reasoning_details)
            if not text and not self._plain_reasoning:
                text = detail_text
        self._plain_reasoning = self._plain_reasoning or bool(reasoning)
        self._take_thought(text, out, beside=bool(delta.content))
        if self._details and self._details_block < 0:
            if self._reasoning < 0:
                self._reasoning = self._next_text_block()
                out.append(BlockStarted(self._reasoning, "reasoning"))
            self._details_block = self._reasoning

    def _take_text(self, text: str, out: list[Event], beside: bool) -> None:
        if self._text < 0:
            self._text = self._next_text_block()
        if not beside:
            self._reasoning = -1
        out.append(TextDelta(self._text, text))

    def _take_thought(self, text: str, out: list[Event], beside: bool) -> None:
        if not text:
            return
        if self._reasoning < 0:
            self._reasoning = self._next_text_block()
        if not beside:
            self._text = -1
        out.append(ReasoningDelta(self._reasoning, text))

    def _release_held(self, out: list[Event]) -> None:
        for kind, text in self._think.end():
            if kind == "text":
                self._take_text(text, out, beside=False)
            else:
                self._take_thought(text, out, beside=False)

    # Facts about the reply

    def _note_start(self, chunk: Chunk, out: list[Event]) -> None:
        reply_id = self.reply_id or str(chunk.id or "")
        model = self._model or chunk.model or ""
        if (reply_id, model) != (self.reply_id, self._model):
            self.reply_id, self._model = reply_id, model
            out.append(Started(reply_id, model))

    def _note_finish(self, choice: Choice, out: list[Event]) -> None:
        said = (choice.finish_reason or "").strip()
        self._native = choice.native_finish_reason or self._native
        finish = _FINISHES.get(said.lower(), "other")
        native = _FINISHES.get(self._native.lower(), "other")
        if native in ("failed", "malformed") and finish in ("stop", "calls", "other"):
            finish = native  # a router relabels what its upstream could not say
        if said or finish == native != "other":
            self._finish = FinishNoted(finish, said, self._native)
            out.append(self._finish)

    def _note_usage(self, chunk: Chunk, out: list[Event]) -> None:
        found = chunk.usage or (chunk.x_groq or {}).get("usage")
        if isinstance(found, dict) and found:
            out.append(UsageNoted(usage_from_openai(found)))

    # Ends

    def _ended(self, out: list[Event], by: str) -> LastWord:
        finish = self._finish.finish if self._finish is not None else None
        if finish == "failed":
            said = self._finish.detail or self._finish.said if self._finish is not None else ""
            circling = said.lower() == "repetition"  # the host stopped a model that went round in circles
            kind: FailureKind = "repeated" if circling else "server"
            return Cut(failure(kind, f"the provider ended the stream with {said!r}"))
        self._release_held(out)
        if self._details:
            out.append(StateNoted(self._details_block, {"reasoning_details": self._details.whole()}))
        out.extend(BlockClosed(block) for block in self._closable)
        # A reason to stop does not close an open object: it may lie, and some servers send the rest behind it.
        out.extend(CallClosed(call.block) for call in self._merger.calls if not call.is_cut())
        return Ended(by)

    def _error(self, name: bytes, chunk: Chunk, data: bytes) -> LastWord | None:
        try:
            document = read_any(data)
        except Unreadable:
            document = {"error": chunk.error}
        error = failures.error_in(document) or (chunk.x_groq or {}).get("error")
        if error is None and name == b"error" and not chunk.choices:
            error = document  # the bare error object, under its event's name
        return None if error is None else Cut(failures.from_error(error))

    def _read_again(self, name: bytes, data: bytes, problem: Exception, out: list[Event]) -> Chunk | LastWord | None:
        """Not a chunk at first sight: the end mark, an error in an unknown shape, or something to skip and say so."""
        if data.strip() == b"[DONE]":
            return self._ended(out, "[DONE]")
        try:
            chunk = reread(CHUNK, data, problem)
        except Unreadable as again:
            problem = again
        else:
            self.loose = True
            return chunk
        try:
            error = failures.error_in(read_any(data))
        except Unreadable:
            error = None
        if error is None and name == b"error":
            error = sample(data)
        if error is not None:
            return Cut(failures.from_error(error))
        out.append(Skipped(str(problem) or type(problem).__name__, sample(data)))
        return None

    # Numbers

    def _main_choice(self, choices: list[Choice]) -> Choice | None:
        """Requests ask for one choice; a server that sends more has its first one heard."""
        return next((choice for choice in choices if not choice.index), None)

    def _next_text_block(self) -> int:
        self._closable.append(self._blocks)
        return self._next_block()

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _number_call(self, call_id: str) -> tuple[int, str]:
        block = self._next_block()
        return block, call_id or f"call_{self.reply_id or 'reply'}_{block}"


def _shown(document: object) -> str:
    return sample(msgspec.json.encode(document))
