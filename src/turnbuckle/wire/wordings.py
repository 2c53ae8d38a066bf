"""The sentences by which providers say what their codes leave out. Each pattern is one provider's wording,
lower case.

Only `wire/failures.py` asks. Four questions are answered here: what kind of failure a sentence speaks of,
how many output tokens it would still allow, how large the window is, and which field of the request it
refuses by name.
"""

import re

from turnbuckle.vocab.failure import FailureKind

_READ = 8_000
"""Characters of a refusal, which may quote the whole request behind its sentence."""
_WITHIN = r"(?:[^.]|\.\d){0,80}?"  # the same sentence, in which a number may have a point
_ANYBODYS_WORDS = re.compile(
    r"^(?!.*(?:per[- ](?:min|day|hour|sec)|rate limit|quota)).*?"
    r"(?<![a-z_.\]])(?:prompt|input|context|messages?|conversation|total tokens)(?:_tokens|_len)?(?![a-z_\[])"
    rf"{_WITHIN}"
    r"(?:exceed|too (?:long|large|many|big)\b|(?:longer|greater|larger|more) than"
    r"|must be (?:less|smaller|fewer|shorter) than)"
    rf"(?:{_WITHIN}(?:tokens?\b|context\b|length\b|window\b|max_seq_len|max_model_len|session_len"
    r"|max_num_tokens)|\W*$)",
    re.DOTALL,
)
"""That something of the prompt is more than fits, in the words of a host that nobody wrote down. To take
another refusal for this one costs a summary; the other way round, a conversation can never go on."""
_NO_WAIT_HELPS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    # A limit a minute that one request breaks by itself
    ("too_large", re.compile(r"request too large for .{1,200}\btokens per (?:min|day)")),
    # Anthropic: above 200,000 tokens, which takes a contract of its own
    ("context", re.compile(r"required for long context requests|long context beta is not")),
)
"""What hosts call a rate limit and is none: the same request would be refused for ever, and a smaller one is
not."""
_SENTENCES: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        "billing",
        re.compile(
            r"credit balance is too low|spend(?:ing)? (?:limit|cap)|insufficient (?:balance|credits|funds)"
            r"|specified api usage limit|requires more credits"
        ),
    ),
    (
        "malformed_call",
        re.compile(
            r"failed to (?:call a function|parse (?:the )?(?:tool|function)[ _]calls?)|tool call "
            r"validation failed"
            r"|error parsing tool call|model did not call a tool"
        ),
    ),
    (
        # Before `context`: what is too long or has an illegal character here is a name or an id in the
        # history.
        "pairing",
        re.compile(
            r"must be followed by tool messages|must be a response to a preceding|no tool output found for"
            r"|tool_use. ids were found without|unexpected .?tool_use_id|without its required"
            r"|bound to a different conversation|must be passed back"
            r"|tool_call_ids? did not have response|does not support assistant message prefill"
            # State that the provider does not take back
            r"|thought[ _]signature|signature. in .?thinking|thinking\.signature"
            r"|thinking. blocks?\b[^.]{0,60}(?:cannot be modified|modified|unchanged)"
            r"|expected .?(?:redacted_)?thinking|must start with a thinking block"
            r"|encrypted[ _]content\b.{0,400}(?:could not be|cannot be|cannot be|invalid|did not "
            r"match|failed)"
            r"|invalid[ _]encrypted[ _]content|item with id .{1,80} not found|items are not persisted"
            # Parts of an answer that even its host does not take back: only an assistant may refuse
            r"|supported values are: .?text.? and .?refusal"
            # Names and ids of calls in the history
            r"|(?:messages?|input|contents?)\b[\[.\]\d\w]{0,80}\.(?:name|id|call_id|tool_call_id|tool_use_id)\b.{0,40}"
            r"(?:string|pattern|invalid|must|should|too long|match)"
            r"|function name was .{0,300} but must be|tool call id was .{0,300} but must be"
            r"|tool_use. ids must be unique|duplicate (?:value for )?.?tool_call_id"
            r"|tool_call_id.{0,80} (?:is )?not found"
            # Order and number
            r"|roles must alternate|unexpected role .{1,40} after role|expected last role"
            r"|first message must use the|function call turn comes immediately after"
            r"|number of function (?:response|calls)|same number of function calls and responses"
            r"|expected toolresult blocks|number of toolresult blocks"
            r"|(?:content blocks|all messages) must (?:be|have) non-empty|cannot end with trailing whitespace"
        ),
    ),
    *_NO_WAIT_HELPS,
    ("too_large", re.compile(r"payload size exceeds the limit")),
    ("rate_limited", re.compile(r"too many tokens\b[^.]{0,20} please wait")),
    (
        "context",
        re.compile(
            r"prompt is too long|maximum context length|context[ "
            r"_](?:length|window|size|limit)[^.]{0,40}exceed"
            r"|exceed\w*[^.]{0,40}context[ _](?:length|window|size|limit)|input token count|input is too long"
            r"|too many (?:input )?tokens|maximum prompt length|prompt exceeds max length"
            r"|range of input length should be|greater than the context length"
            r"|reduce the length of the (?:messages|prompt|input)|exceeds the available context size"
            r"|longer than the (?:model's context|maximum model) length|exceeded model token limit"
            r"|context length of only|tokens. must be <=|must have less than [\d,]+ tokens"
            r"|tokens in the prompt cannot exceed|prompt token count of|too large for model with"
            r"|reached context length|context overflow|max(?:imum)? tokens of [\d,]+ exceeded"
            r"|too large for \S{1,80} model\. max size: [\d,]+ tokens"
            r"|(?:prompt|\u8f93\u5165|\u4e0a\u4e0b\u6587)[^\u3002]{0,20}(?:\u8fc7\u957f|\u8d85\u957f|\u8d85\u51fa|\u8d85\u8fc7)"
        ),
    ),
    ("context", _ANYBODYS_WORDS),
    (
        "unstreamable",
        re.compile(
            r"verified to stream"
            r"|stream(?:ing|ed)?\b[^.]{0,60}\b(?:not (?:be )?support|unsupported|not (?:available|allowed))"
            r"|(?:not|n't) support\w*[^.]{0,30}\bstream|invokemodelwithresponsestream"
        ),
    ),
    (
        "reset",
        re.compile(
            r"connection (?:was |has been )?(?:lost|reset|closed|terminated|aborted|error)|network "
            r"(?:error|connection)"
            r"|upstream connect error|peer closed|broken pipe|socket hang ?up|incomplete chunked "
            r"read|^terminated$"
        ),
    ),
    ("overloaded", re.compile(r"\boverloaded\b|at capacity")),
)

_CAP_FIELDS = "max_completion_tokens|max_output_tokens|max_tokens"
_ROOMS = (
    re.compile(r"can only afford ([\d,]+)"),
    re.compile(r"supports at most ([\d,]+) (?:completion|output)"),
    re.compile(rf"(?:{_CAP_FIELDS})\W{{1,3}}[\d,]+ > ([\d,]+), which is the maximum"),
    re.compile(rf"(?:{_CAP_FIELDS})\W{{0,3}} must be less than or equal to \W?([\d,]+)"),
    re.compile(rf"range of (?:{_CAP_FIELDS}) (?:is|should be) \[1, ?([\d,]+)\]"),
)
_WINDOWS = (  # window, then what the prompt takes of it
    re.compile(
        r"maximum context length is (?P<window>[\d,]+)[^(]{0,120}\((?P<taken>[\d,]+) (?:in the "
        r"messages|of text input)"
    ),
    re.compile(r"maximum context length is (?P<window>[\d,]+)[^(]{0,80}has (?P<taken>[\d,]+) input tokens"),
    re.compile(r"exceed context limit: (?P<taken>[\d,]+) \+ [\d,]+ > (?P<window>[\d,]+)"),
)
_N = r"(?P<{}>[\d,_]+)"
_WINDOW, _TAKEN = _N.format("window"), _N.format("taken")
_SIZES = tuple(
    re.compile(pattern)
    for pattern in (
        # OpenAI, Azure, DeepSeek, vLLM, SGLang, OpenRouter: the prompt's own count is believed first.
        rf"maximum context length is {_WINDOW}[^(]{{0,120}}\({_TAKEN} (?:in the messages|of text input)",
        rf"maximum context length is {_WINDOW}[^(]{{0,120}}has {_TAKEN} input tokens",
        rf"maximum context length is {_WINDOW} tokens[^\d]{{0,80}}(?:resulted in|requested|contains?)"
        rf" (?:about |at least )?{_TAKEN}",
        rf"(?:maximum )?context length of (?:only )?{_WINDOW}[^\d]{{0,60}}(?:a total of|requested) {_TAKEN}",
        rf"maximum context length of \S{{1,80}} is {_WINDOW}[^\d]{{0,60}}take {_TAKEN}",
        rf"maximum context length (?:is|of) {_WINDOW}",
        rf"you passed {_TAKEN} input tokens.{{0,80}}context length is only {_WINDOW}",
        rf"configured limit of {_WINDOW} tokens[^\d]{{0,60}}resulted in {_TAKEN}",
        # Anthropic, and Fireworks in its words
        rf"prompt is too long: {_TAKEN} tokens > {_WINDOW}",
        rf"exceed context limit: {_TAKEN} \+ [\d,]+ > {_WINDOW}",
        rf"prompt is too long: {_TAKEN}, model maximum context length: {_WINDOW}",
        # Gemini
        rf"input token count \({_TAKEN}\) exceeds the maximum number of tokens allowed \({_WINDOW}\)",
        rf"input token count is {_TAKEN} but[^\d]{{0,40}}up to {_WINDOW}",
        rf"input token count exceeds the maximum number of tokens allowed \(?{_WINDOW}",
        # llama.cpp, LM Studio, vLLM, SGLang
        rf"reached context length of {_WINDOW}",
        rf"request \({_TAKEN} tokens\) exceeds the available context size \({_WINDOW}",
        rf"first {_TAKEN} tokens when[^\d]{{0,80}}context length of only {_WINDOW}",
        rf"prompt \(length {_TAKEN}\) is longer than the maximum model length of {_WINDOW}",
        rf"input \({_TAKEN} tokens\) is longer than the model's context length \({_WINDOW}",
        # Mistral, xAI, Moonshot, Cerebras, Copilot, Cohere, TGI and Together, DashScope
        rf"prompt contains {_TAKEN} tokens[^\d]*(?:\d+ draft tokens)?, too large for model with {_WINDOW}",
        rf"maximum prompt length is {_WINDOW}[^\d]{{0,40}}contains {_TAKEN}",
        rf"model token limit: {_WINDOW} \(requested: {_TAKEN}",
        rf"current length is {_TAKEN} while limit is {_WINDOW}",
        rf"token count of {_TAKEN} exceeds the limit of {_WINDOW}",
        rf"in the prompt cannot exceed {_WINDOW}[^\d]{{0,20}}received {_TAKEN}",
        rf"tokens. must be <= {_WINDOW}. given: {_TAKEN}",
        rf"must have less than {_WINDOW} tokens. given: {_TAKEN}",
        rf"range of input length should be \[1, ?{_WINDOW}\]",
        rf"limit for this model is {_WINDOW} tokens",
        rf"exceed the model limit: {_WINDOW}",
        # GitHub, Perplexity, MLX, TabbyAPI, Cloudflare, watsonx, Volcengine, SiliconFlow, LMDeploy, TensorRT
        rf"max size: {_WINDOW} tokens",
        rf"message is too long: {_TAKEN} tokens; maximum {_WINDOW}",
        rf"length {_TAKEN} exceeds the (?:model's )?maximum (?:length|of) {_WINDOW}",
        rf"length {_TAKEN} is greater than max_seq_len {_WINDOW}",
        rf"output tokens \({_TAKEN}\) exceeded this model context window limit \({_WINDOW}\)",
        rf"input tokens {_TAKEN} cannot exceed the total tokens limit {_WINDOW}",
        rf"prompt_tokens \({_TAKEN}\) must be less than max_seq_len \({_WINDOW}\)",
        rf"input length {_TAKEN} plus max tokens \d+ is longer than session_len {_WINDOW}",
        rf"prompt length \({_TAKEN}(?:\.0)?\).{{0,40}}should not exceed max_num_tokens \({_WINDOW}\)",
    )
)
"""How many tokens fit, and how many there were, in each provider's words."""
_REFUSED_FIELD = re.compile(
    rf"(?:un(?:supported|recognized|known|expected)[^.]{{0,60}}?|property )\W({_CAP_FIELDS})\W"
    rf"|\W({_CAP_FIELDS})\W{{1,3}}(?:is|are|was)? ?(?:not "
    rf"(?:supported|permitted|allowed|valid)|unsupported|unknown)"
    rf"|extra_forbidden.{{0,60}}\W({_CAP_FIELDS})\W"
    rf"|\W({_CAP_FIELDS})\W.{{0,40}}extra inputs are not permitted"
)


def spoken_kind(message: str) -> FailureKind | None:
    """What kind of failure this sentence speaks of, if it is one of those that we know."""
    text = message[:_READ].lower()
    return next((kind for kind, pattern in _SENTENCES if pattern.search(text)), None)


def too_large_for_ever(message: str) -> FailureKind | None:
    """Of what a host calls a rate limit: what it is, if only a smaller request helps."""
    text = message.lower()
    return next((kind for kind, pattern in _NO_WAIT_HELPS if pattern.search(text)), None)


def room_in(message: str) -> int | None:
    """How many output tokens the provider would still allow, where its refusal says so."""
    text = message.lower()
    for pattern in _ROOMS:
        if found := pattern.search(text):
            return _count(found[1]) or None
    for pattern in _WINDOWS:
        if found := pattern.search(text):
            return max(_count(found["window"]) - _count(found["taken"]), 0) or None
    return None


def sizes_in(message: str) -> tuple[int | None, int | None]:
    """How many tokens a model takes in all, and how many a refused request had, where the refusal says so."""
    text = message.lower()
    for pattern in _SIZES:
        if found := pattern.search(text):
            named = found.groupdict()
            return _count(found["window"]) or None, _count(named.get("taken") or "") or None
    return None, None


def refused_cap_field(message: str) -> str:
    """The field of the output cap that is refused by its name; empty if none is."""
    found = _REFUSED_FIELD.search(f" {message.lower()} ")
    return next((name for name in found.groups() if name), "") if found else ""


def _count(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", "")[:12] or "0")
