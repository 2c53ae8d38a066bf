"""Every endpoint under `/v1` that begins, reads or ends a run: the rows of the table, with what the document
says."""

from typing import Any

from turnbuckle.narrate.receipt import Receipt
from turnbuckle.server.api.conversations import ConversationBody, ConversationsApi, ConversationView
from turnbuckle.server.api.request_headers import (
    BUSY_HEADER,
    EVENTS_HEADER,
    KEY,
    ON_DISCONNECT_HEADER,
    SESSION_HEADER,
    STRICT_HEADER,
)
from turnbuckle.server.api.run_shapes import BRIEF, RUN_ANSWER, RUN_BODY, RUN_STREAM, SESSION_MESSAGE_BODY
from turnbuckle.server.api.runs import AnswerBody, RunsApi
from turnbuckle.server.api.sessions import (
    DoneView,
    ForkBody,
    InboxView,
    MessageView,
    NewSessionBody,
    ProcessView,
    RenameBody,
    SessionCompactBody,
    SessionRetryBody,
    SessionsApi,
    SessionView,
)
from turnbuckle.server.faces.chat.handler import Chat
from turnbuckle.server.faces.chat.shapes import CHAT_BODY, CHAT_STREAM, COMPLETION
from turnbuckle.server.faces.messages.endpoints import message_endpoints
from turnbuckle.server.faces.messages.handler import MessagesApi
from turnbuckle.server.faces.responses.compact import CompactApi
from turnbuckle.server.faces.responses.handler import ResponsesApi
from turnbuckle.server.faces.responses.shapes import (
    COMPACT_BODY,
    COMPACTION,
    ITEMS,
    RESPONSE,
    RESPONSE_BODY,
    RESPONSE_STREAM,
)
from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Handler
from turnbuckle.server.http.openapi import STREAM, Given, Operation, Parameter
from turnbuckle.server.http.pages import AFTER, LIMIT, ORDER, SHORT_LIMIT, NodesPage, Page
from turnbuckle.service.commands import SessionContext
from turnbuckle.service.run_view import ApprovalView, DraftView, LedgerView, RunLine

_ANSWER_HEADERS = ("x-turnbuckle-run", "x-turnbuckle-session", "idempotency-replayed")
_NAMED = _ANSWER_HEADERS[:1]
_BEGUN = (*_ANSWER_HEADERS, "x-turnbuckle-left-out", "location")
_RELAYED = (*_ANSWER_HEADERS, "x-turnbuckle-outcome", "x-turnbuckle-left-out", "x-turnbuckle-route")
DELETED = {
    "type": "object",
    "required": ["id", "object", "deleted"],
    "properties": {"id": {"type": "string"}, "object": {"type": "string"}, "deleted": {"const": True}},
}
_FLAG = {"type": "boolean"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**53}
_ORDER = Parameter("order", "asc or desc.", schema={"enum": ["asc", "desc"], "default": "desc"})
_AFTER_ITEM = Parameter("after", "The id of the last item that was seen.")
_AFTER_MESSAGE = Parameter("after", "The id of the last message that was seen, or the `next` of a page.")
_EITHER_END = Parameter(
    "order",
    "`asc`: the oldest come first. `desc`: the newest do, so the first page is the end of a session.",
    schema={"type": "string", "enum": ["asc", "desc"], "default": "asc"},
)
_ENDS_BADLY = (404, 409, 422, 502, 504)


def api_endpoints(
    chat: Chat,
    responses: ResponsesApi,
    messages: MessagesApi,
    conversations: ConversationsApi,
    runs: RunsApi,
    sessions: SessionsApi,
) -> tuple[Endpoint, ...]:
    """All of them."""
    return (
        *_chat(chat),
        *_responses(responses),
        *message_endpoints(messages, _RELAYED, _ENDS_BADLY),
        *_conversations(conversations),
        *_runs(runs),
        *_what_runs_left(runs),
        *_sessions(sessions),
        *_in_sessions(sessions, runs),
    )


def _chat(api: Chat) -> tuple[Endpoint, ...]:
    answer = Given("The answer.", COMPLETION, headers=_RELAYED)
    streamed = Given("Or the answer as it comes.", CHAT_STREAM, STREAM)
    doc = Operation(
        "createChatCompletion",
        "Chat completions, as OpenAI's clients send them",
        "chat",
        (SESSION_HEADER, BUSY_HEADER, EVENTS_HEADER, ON_DISCONNECT_HEADER, STRICT_HEADER, KEY),
        CHAT_BODY,
        answers={200: (answer, streamed)},
        problems=_ENDS_BADLY,
    )
    return (Endpoint("POST", "/v1/chat/completions", api.create, doc, by_turns=True),)


def _responses(api: ResponsesApi) -> tuple[Endpoint, ...]:
    whole = Given("The response.", RESPONSE, headers=_RELAYED)
    response = Given("The response.", RESPONSE, headers=_NAMED)
    streamed = Given("Or its events.", RESPONSE_STREAM, STREAM)
    path, tag = "/v1/responses/{response}", "responses"
    created = Operation(
        "createResponse",
        "Responses, as OpenAI's clients send them",
        tag,
        (SESSION_HEADER, BUSY_HEADER, ON_DISCONNECT_HEADER, STRICT_HEADER, KEY),
        RESPONSE_BODY,
        answers={200: (whole, streamed)},
        problems=_ENDS_BADLY,
    )
    fetched = Operation(
        "getResponse",
        "A response, or its events from any point",
        tag,
        (
            Parameter("stream", "Its events instead.", schema=_FLAG),
            Parameter("starting_after", "Only events after this number.", schema=_NUMBER),
        ),
        answers={200: (response, streamed)},
    )
    cancelled = Operation("cancelResponse", "Stop a background response", tag, answers={200: (response,)})
    deleted = Operation(
        "deleteResponse",
        "Delete a response",
        tag,
        answers={200: (Given("Gone.", DELETED),)},
        problems=(409,),
    )
    items = Operation(
        "listInputItems",
        "What the response was asked with",
        tag,
        (LIMIT, _AFTER_ITEM, _ORDER),
        answers={200: (Given("The items.", ITEMS),)},
    )
    compacted = Operation(
        "compactResponse",
        "A shortened conversation to send instead",
        tag,
        (KEY,),
        COMPACT_BODY,
        answers={200: (Given("The shortened conversation.", COMPACTION, headers=_ANSWER_HEADERS),)},
        problems=_ENDS_BADLY,
    )
    socket = Operation(
        "connectResponses",
        "Responses over a WebSocket",
        tag,
        answers={101: (Given("The WebSocket: a client sends `response.create`, and gets events."),)},
        problems=(426,),
    )
    return (
        Endpoint("POST", "/v1/responses", api.create, created, by_turns=True),
        Endpoint("GET", "/v1/responses", api.upgrade, socket),
        Endpoint("POST", "/v1/responses/compact", CompactApi(api).create, compacted),
        Endpoint("GET", path, api.get, fetched),
        Endpoint("DELETE", path, api.delete, deleted),
        Endpoint("POST", f"{path}/cancel", api.cancel, cancelled),
        Endpoint("GET", f"{path}/input_items", api.input_items, items),
    )


def _conversations(api: ConversationsApi) -> tuple[Endpoint, ...]:
    path, tag = "/v1/conversations/{conversation}", "responses"
    conversation = {200: (Given("The conversation.", ConversationView),)}
    body = ConversationBody
    return (
        Endpoint(
            "POST",
            "/v1/conversations",
            api.create,
            Operation(
                "createConversation", "Make a conversation", tag, (KEY,), body, False, conversation, (409,)
            ),
        ),
        Endpoint(
            "GET", path, api.get, Operation("getConversation", "A conversation", tag, answers=conversation)
        ),
        _plain("DELETE", path, api.delete, "deleteConversation", "Delete it", tag, DELETED, problems=(409,)),
        _plain(
            "GET",
            f"{path}/items",
            api.items,
            "listConversationItems",
            "What was said",
            tag,
            ITEMS,
            (LIMIT, _AFTER_ITEM, _ORDER),
        ),
    )


def _runs(api: RunsApi) -> tuple[Endpoint, ...]:
    path, tag = "/v1/runs/{run}", "runs"
    begun = Operation(
        "createRun",
        "Begin a run, and come back to it later",
        tag,
        (BUSY_HEADER, ON_DISCONNECT_HEADER, STRICT_HEADER, KEY),
        RUN_BODY,
        answers={202: (Given("It has begun.", RunLine, headers=_BEGUN),)},
        problems=(404, 409, 422),
    )
    followed = Operation(
        "followRun",
        "Everything that happens in a run, from any event on, then live",
        tag,
        (
            Parameter("after", "Only events after this id.", schema=_NUMBER),
            Parameter("Last-Event-ID", "The same, as browsers send it.", "header", _NUMBER),
            Parameter("told", "What each event means to a reader, in its place.", schema=_FLAG),
            Parameter("joined", "With `told`: pieces that are stored already are one event.", schema=_FLAG),
        ),
        answers={
            200: (Given("Events with ids.", RUN_STREAM, STREAM, headers=_NAMED),),
            204: (Given("`Last-Event-ID` was its last event: nothing follows.", headers=_NAMED),),
        },
    )
    taken_up = Operation(
        "resumeRun",
        "Take up a run that was interrupted",
        tag,
        answers={202: (Given("It goes on, or has ended.", RunLine),)},
    )
    status = Parameter(
        "status", "Only these.", schema={"enum": ["running", "completed", "partial", "cancelled", "failed"]}
    )
    named = {"type": "string", "pattern": "^[A-Za-z0-9._:-]{0,128}$"}
    session = Parameter("session", "Only of this session.", schema=named)
    found = (
        Parameter("q", "Only runs that contain these words; where they were said last comes first."),
        Parameter("route", "Only runs answered by this route, or last tried on it."),
        Parameter("since", "Only runs that began then or later: a day by UTC, or seconds since 1970."),
        Parameter("until", "Only runs that began before that: a day by UTC, or seconds since 1970."),
    )
    wanted = (status, session, *found, AFTER, ORDER)
    return (
        Endpoint("POST", "/v1/runs", api.create, begun),
        _page(
            "/v1/runs", api.list, "listRuns", "Runs, last touched first", tag, RunLine, wanted, of=NodesPage
        ),
        _plain("GET", path, api.get, "getRun", "A run as it stands", tag, RUN_ANSWER, (BRIEF,)),
        _plain("DELETE", path, api.delete, "deleteRun", "Delete a run", tag, DELETED, problems=(409,)),
        Endpoint("GET", f"{path}/events", api.events, followed),
        Endpoint("POST", f"{path}/resume", api.resume, taken_up),
        _plain("POST", f"{path}/interrupt", api.interrupt, "interruptRun", _INTERRUPT, tag, Receipt),
        _plain("POST", f"{path}/stop", api.stop, "stopRun", _STOP, tag, Receipt),
    )


def _what_runs_left(api: RunsApi) -> tuple[Endpoint, ...]:
    path, tag = "/v1/runs/{run}", "runs"
    answered = Operation(
        "answerApproval",
        "Say yes or no to exactly this call, or answer the question",
        tag,
        body=AnswerBody,
        answers={200: (Given("The answer is stored.", ApprovalView),)},
        problems=(409,),
    )
    return (
        _list(
            "/v1/approvals",
            api.all_approvals,
            "listAllApprovals",
            "All that waits for you",
            tag,
            ApprovalView,
            NodesPage,
        ),
        _list(
            f"{path}/approvals", api.approvals, "listApprovals", "What the run has asked", tag, ApprovalView
        ),
        Endpoint("POST", f"{path}/approvals/{{approval}}", api.answer, answered),
        _list(
            f"{path}/drafts", api.drafts, "listDrafts", "What is kept of calls that were cut", tag, DraftView
        ),
        _plain(
            "GET",
            f"{path}/drafts/{{draft}}",
            api.draft,
            "getDraft",
            "One draft with its text",
            tag,
            DraftView,
        ),
        _plain(
            "GET", f"{path}/ledger", api.ledger, "getLedger", "What the run wasted, and why", tag, LedgerView
        ),
    )


def _sessions(api: SessionsApi) -> tuple[Endpoint, ...]:
    path, tag = "/v1/sessions/{session}", "sessions"
    session = {201: (Given("The session.", SessionView, headers=("location",)),)}
    words = Parameter("q", "Only sessions that contain these words.")
    return (
        Endpoint(
            "POST",
            "/v1/sessions",
            api.create,
            Operation("createSession", "Make a session", tag, (KEY,), NewSessionBody, False, session, (409,)),
        ),
        _page(
            "/v1/sessions",
            api.list,
            "listSessions",
            "Sessions, newest first",
            tag,
            SessionView,
            (words, AFTER, ORDER),
        ),
        _plain("GET", path, api.get, "getSession", "A session", tag, SessionView),
        Endpoint(
            "PATCH",
            path,
            api.rename,
            Operation(
                "renameSession",
                "Rename it",
                tag,
                (),
                RenameBody,
                answers={200: (Given("Renamed.", SessionView),)},
            ),
        ),
        _plain(
            "DELETE",
            path,
            api.delete,
            "deleteSession",
            "Delete it and its runs",
            tag,
            DELETED,
            problems=(409,),
        ),
        _page(
            f"{path}/messages",
            api.messages,
            "listMessages",
            "What was said, from either end",
            tag,
            MessageView,
            (_AFTER_MESSAGE, _EITHER_END),
        ),
        Endpoint(
            "POST",
            f"{path}/fork",
            api.fork,
            Operation(
                "forkSession",
                "A new session that shares what was said",
                tag,
                (KEY,),
                ForkBody,
                False,
                session,
                (409,),
            ),
        ),
    )


def _with_body(name: str, summary: str, body: type) -> Operation:
    answers = {200: (Given(summary, DoneView),)}
    return Operation(name, summary, "sessions", (KEY,), body, False, answers, (409,))


_UNDO_COMPACTION = "Give its model the full history again"
_RETRY = "Retry the last message, on another route if one is named"
_COMPACT = "Summarise its history for the model"
_INTERRUPT = "End a run and keep the conversation; the receipt says what ended"
_STOP = "Stop a run; the next message of its session starts fresh. The receipt says what ended"
_CONTEXT = "How full the model's window is"
_PROCESSES = "What runs in the background, and the last 20 that ended"


def _in_sessions(api: SessionsApi, runs: RunsApi) -> tuple[Endpoint, ...]:
    one, tag = "/v1/sessions/{session}", "sessions"
    message = Operation(
        "sayInSession",
        "Say something in a session; the answer is a run",
        tag,
        (BUSY_HEADER, ON_DISCONNECT_HEADER, STRICT_HEADER, KEY),
        SESSION_MESSAGE_BODY,
        answers={
            202: (
                Given(
                    "It is stored, and will be answered.",
                    RunLine,
                    headers=_BEGUN,
                ),
            )
        },
        problems=(409, 422),
    )

    def change(
        path: str, handler: Handler, name: str, summary: str, parameters: tuple[Parameter, ...] = ()
    ) -> Endpoint:
        return _plain(
            "POST", f"{one}/{path}", handler, name, summary, tag, DoneView, parameters, problems=(409,)
        )

    return (
        Endpoint("POST", f"{one}/messages", runs.create, message),
        _list(
            f"{one}/inbox",
            api.inbox,
            "listInbox",
            "The last 200 messages, and what became of each",
            tag,
            InboxView,
        ),
        _list(f"{one}/processes", api.processes, "listProcesses", _PROCESSES, tag, ProcessView, NodesPage),
        _list(
            "/v1/processes",
            api.all_processes,
            "listAllProcesses",
            "The same of all sessions",
            tag,
            ProcessView,
            NodesPage,
        ),
        _plain(
            "POST",
            "/v1/processes/{process}/stop",
            api.stop_process,
            "stopProcess",
            "End a process",
            tag,
            ProcessView,
        ),
        change("stop", api.stop, "stopSession", "End what runs and what waits"),
        change("new", api.new, "newConversation", "Begin a new conversation in it"),
        change("reset", api.reset, "resetSession", "The same; the model is told that something went wrong"),
        Endpoint("POST", f"{one}/retry", api.retry, _with_body("retrySession", _RETRY, SessionRetryBody)),
        change("undo", api.undo, "undoSession", "Undo the last message and its answer", (KEY,)),
        Endpoint(
            "POST", f"{one}/compact", api.compact, _with_body("compactSession", _COMPACT, SessionCompactBody)
        ),
        change("undo_compaction", api.undo_compaction, "undoCompaction", _UNDO_COMPACTION, (KEY,)),
        _plain("GET", f"{one}/context", api.context, "getContext", _CONTEXT, tag, SessionContext),
    )


def _plain(
    method: str,
    path: str,
    handler: Handler,
    name: str,
    summary: str,
    tag: str,
    schema: Any,
    parameters: tuple[Parameter, ...] = (),
    problems: tuple[int, ...] = (),
) -> Endpoint:
    """A row without a body whose answer is one thing."""
    answers = {200: (Given(summary, schema),)}
    doc = Operation(name, summary, tag, parameters, answers=answers, problems=problems)
    return Endpoint(method, path, handler, doc)


def _list(
    path: str, handler: Handler, name: str, summary: str, tag: str, kind: type, of: Any = Page
) -> Endpoint:
    """A row whose answer rarely needs a second page."""
    return _page(path, handler, name, summary, tag, kind, (AFTER,), SHORT_LIMIT, of)


def _page(
    path: str,
    handler: Handler,
    name: str,
    summary: str,
    tag: str,
    kind: type,
    parameters: tuple[Parameter, ...] = (),
    limit: Parameter = LIMIT,
    of: Any = Page,
) -> Endpoint:
    """A row whose answer is a page of things."""
    answers = {200: (Given(summary, of[kind]),)}
    doc = Operation(name, summary, tag, (limit, *parameters), answers=answers)
    return Endpoint("GET", path, handler, doc)
