"""Passes over the parts of single messages: each part in a message that may hold it, none that a provider
refuses."""

from msgspec.structs import replace

from turnbuckle.reply.repair.history import History, Passed, Terms, open_messages, with_parts
from turnbuckle.reply.stand_in import state_once_changed
from turnbuckle.reply.thoughts import can_return, is_foreign, is_own_part, is_thought
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
)

_PEOPLE_CANNOT = (CallPart, ReasoningPart, RefusalPart)
_MODELS_CANNOT = (ImagePart, FilePart)
_STATED = (TextPart, CallPart, ImagePart, FilePart, ResultPart)


def parts_in_place(messages: History, terms: Terms) -> Passed:
    """Results into tool messages, words of people out of them, calls and reasoning only from the assistant,
    pictures and files never from it: no protocol takes those back.

    Results stand before the text of the same message: text in front of them teaches models to answer
    nothing."""
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        results = tuple(part for part in message.parts if isinstance(part, ResultPart))
        others = tuple(part for part in message.parts if not isinstance(part, ResultPart))
        cannot = _MODELS_CANNOT if message.role == "assistant" else _PEOPLE_CANNOT
        fitting = tuple(part for part in others if not isinstance(part, cannot))
        did += [
            (index, f"dropped {_name(part)} from a {message.role} message") for part in _lost(others, fitting)
        ]
        others = fitting
        if message.role == "tool":
            if others:
                did.append((index, "moved what is no result out of a tool message"))
                split = [Message("tool", results)] if results else []
                out += [*split, Message("user", others, note=message.note)]
            else:
                out.append(with_parts(message, results))
            continue
        rest = [with_parts(message, others)]
        if results:
            did.append((index, f"moved results out of the {message.role} message"))
            moved = [Message("tool", results)]
            rest = rest if others else []
            # The user answers a turn: results first. Anybody else's results came behind what was said.
            rest = [*moved, *rest] if message.role == "user" else [*rest, *moved]
        out += rest
    return Passed(tuple(out), did)


def foreign_state(messages: History, terms: Terms) -> Passed:
    """Drop reasoning and opaque parts that this provider would refuse; take foreign state off all others.

    Two texts between which something is gone stay apart, also where all text of a message is one string. An
    item that is known by its id remembers the reasoning that led to it, so with the reasoning goes that
    memory."""
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        parts: list[Part] = []
        bereft = torn = False
        unwanted = message.role == "assistant" and not terms.rules.takes_own_parts
        for part in message.parts:
            refused = unwanted and is_own_part(part, terms.rules, terms.model)
            dropped = refused and not isinstance(part, TextPart)
            if dropped or not can_return(part, terms.rules, terms.model, terms.quirks):
                did.append((index, f"dropped {_name(part)} that this provider would refuse"))
                bereft = terms.rules.items_have_identity
                torn = torn or not is_thought(part)
                continue
            bereft = bereft and not is_thought(part)
            bare = (
                _stateless(part, terms)
                if refused or _has_foreign_state(part, terms)
                else _unbound(part, terms)
                if bereft
                else part
            )
            if bare != part:
                did.append((index, f"took provider state off {_name(part)}"))
            if torn and terms.rules.runs_text_together and _are_texts(parts[-1:], part):
                parts.append(TextPart("\n\n"))
            torn = False
            parts.append(part if bare == part else bare)
        kept = with_parts(message, parts)
        # What a client wrote beside a message is not a model's, so that any of its protocol may have it.
        foreign = kept.state is not None and is_foreign(kept.state, terms.rules, "")
        out.append(_with_mark(kept, terms) if foreign else kept)
    return Passed(tuple(out), did)


def loose_thoughts(messages: History, terms: Terms) -> Passed:
    """Drop reasoning that nothing follows in its message, and messages that are nothing but reasoning.

    Where reasoning stands beside the text, not in an order with it, only the second matters."""
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        parts = message.parts
        end = len(parts)
        while end and is_thought(parts[end - 1]) and terms.rules.reasoning_leads:
            end -= 1
        if all(is_thought(part) or _is_blank(part) for part in parts[:end]):
            did.append((index, "dropped a message of nothing but reasoning"))
        elif end < len(parts):
            did.append((index, "dropped reasoning that nothing follows"))
            out.append(with_parts(message, parts[:end]))
        else:
            out.append(message)
    return Passed(tuple(out), did)


def empties(messages: History, terms: Terms) -> Passed:
    """Drop empty parts and messages that say nothing. Some providers also refuse texts of nothing but
    white space."""
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        blank_too = terms.rules.refuses_blank_text
        parts = tuple(_trimmed(part, blank_too) for part in message.parts if not _is_empty(part, blank_too))
        if all(_is_blank(part) for part in parts):
            did.append((index, f"dropped an empty {message.role} message"))
        elif parts != message.parts:
            did.append((index, "dropped empty text"))
            out.append(with_parts(message, parts))
        else:
            out.append(message)
    return Passed(tuple(out), did)


def _is_blank(part: Part) -> bool:
    return isinstance(part, (TextPart, RefusalPart)) and not part.text.strip()


def _is_empty(part: Part, blank_too: bool) -> bool:
    if isinstance(part, ReasoningPart):
        return not part.text and part.state is None
    if isinstance(part, (TextPart, RefusalPart)):
        if isinstance(part, TextPart) and part.state is not None and not blank_too:
            return False  # it has no words, but its provider wants it back
        return not (part.text.strip() if blank_too else part.text)
    return False


def _trimmed(part: Part, blank_too: bool) -> Part:
    if not blank_too or not isinstance(part, ResultPart):
        return part
    content = tuple(piece for piece in part.content if not _is_empty(piece, blank_too))
    return part if len(content) == len(part.content) else replace(part, content=content)


def _has_foreign_state(part: Part, terms: Terms) -> bool:
    if isinstance(part, ResultPart) and any(_has_foreign_state(piece, terms) for piece in part.content):
        return True
    if isinstance(part, OpaquePart):
        return is_foreign(part.state, terms.rules, "")
    if not isinstance(part, _STATED) or part.state is None:
        return False
    return is_foreign(part.state, terms.rules, terms.model)


def _stateless(part: Part, terms: Terms) -> Part:
    """The part without what only another provider understands, also inside it."""
    if isinstance(part, ResultPart):
        pieces = [piece for piece in part.content if not isinstance(piece, OpaquePart)]
        content = tuple(replace(piece, state=_mark(piece.state, terms)) for piece in pieces)
        return replace(part, content=content, state=_mark(part.state, terms))
    return replace(part, state=_mark(part.state, terms)) if isinstance(part, _STATED) else part


def _are_texts(before: list[Part], part: Part) -> bool:
    return isinstance(part, TextPart) and bool(before) and isinstance(before[0], TextPart)


def _mark(state: ProviderState | None, terms: Terms) -> ProviderState | None:
    """What is left of foreign state: where its client wants a cache to begin or end."""
    name = terms.rules.cache_mark
    if state is None or not name or state.protocol == terms.rules.protocol:
        return None
    mark = state.data.get(name)
    return ProviderState(terms.rules.protocol, "", {name: mark}) if isinstance(mark, dict) else None


def _with_mark(message: Message, terms: Terms) -> Message:
    """The message without what another protocol's client wrote beside it. A mark there is one of its last
    part."""
    last = message.parts[-1] if message.parts else None
    mark, bare = _mark(message.state, terms), replace(message, state=None)
    if mark is None or not isinstance(last, _STATED) or last.state is not None:
        return bare
    return replace(bare, parts=(*message.parts[:-1], replace(last, state=mark)))


def _unbound(part: Part, terms: Terms) -> Part:
    if isinstance(part, CallPart):
        return CallPart(part.id, part.name, part.arguments, state_once_changed(part, terms.rules))
    return _stateless(part, terms) if isinstance(part, TextPart) else part


def _lost(before: tuple[Part, ...], after: tuple[Part, ...]) -> list[Part]:
    kept = {id(part) for part in after}
    return [part for part in before if id(part) not in kept]


def _name(part: Part) -> str:
    if isinstance(part, CallPart):
        return f"the call {part.id or '(no id)'}"
    if isinstance(part, ReasoningPart):
        return "reasoning"
    if isinstance(part, (ImagePart, FilePart)):
        return "a picture" if isinstance(part, ImagePart) else "a file"
    return (
        "a refusal"
        if isinstance(part, RefusalPart)
        else "text"
        if isinstance(part, TextPart)
        else "an opaque part"
    )
