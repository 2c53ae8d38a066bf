"""What Turnbuckle must do, one line for each id. Tests name the ids that they prove:

    @pytest.mark.requirement("B1")
    def test_a_cut_reply_never_looks_finished(): ...

`tests/test_requirements.py` ties both ways: a due id that no test names fails, and so does a test that names
an id which is not here. An id becomes due with the work that is to fulfil it, and stays due.
"""

REQUIREMENTS: dict[str, str] = {
    # Receiving a model's stream
    "A1": "A streamed text folds to the same reply as the plain answer.",
    "A2": "Pieces of calls fold to id, name and arguments, for one call and for several side by side.",
    "A3": "Provider state of calls and reasoning is kept untouched and goes back to where it belongs.",
    "A4": "Text, reasoning and calls may share a reply, and their order is kept.",
    "A5": "Listeners get deltas in order, the first one is announced once, and every event counts as activity.",
    "A6": "A reply of calls alone shows no text; text around a call is shown live.",
    "A7": "Reasoning in any spelling has its own field, and its tags never show in the text.",
    "A8": "A route that says it cannot stream is asked without streaming, for a limited time.",
    "A9": "Broken transport is tried again while nothing was shown; what a retry cannot change is not.",
    "A10": "All three protocols take one path.",
    "A11": "A body with status 200 that is no event stream is read as the answer or the error that it is.",
    "A12": "Every known quirk of a provider has a recorded case.",
    "A13": "What arrives a second time is settled against what is there: never appended, never run again.",
    "A14": "Of several finish reasons the worse one counts; a bare [DONE] ends only where the route is known for it, and never calls.",
    "A15": "An unreadable frame inside content makes the reply cut; a mistyped side field costs that field alone.",
    "A16": "Reasoning tags count only where reasoning can begin; what never closed comes back as text.",
    # When the stream breaks
    "B1": "A cut reply never looks finished: its text is kept and none of its calls runs.",
    "B2": "A cut before anything was shown is repaired silently.",
    "B3": "A cut in plain text is continued behind a clean seam.",
    "B4": "A cut inside a call is told live, recorded, and leads to a continuation.",
    "B5": "Three kinds of cut have three different prompts to go on.",
    "B6": "Continuation is bounded, progress resets the count, and the whole turn has a cap.",
    "B7": "Repeated cuts on one tool escalate; a prompt that cannot help is not sent again.",
    "B8": "Arguments of a cut call are kept as a draft that the model finishes behind a checked seam.",
    "B9": "Open drafts are listed in the outcome and can be read.",
    "B10": "A stall falls back like any other failure, with the right client.",
    "B11": "A failing route rests and is probed again; all sessions share that knowledge.",
    "B12": "One retry budget covers every layer.",
    "B13": "Every join of text or arguments is proved by an anchor, or asked about; none loses or doubles a character in silence.",
    "B14": "A silent route is left at its first silence if another one is healthy; a sole route is waited for, visibly, within a limit.",
    "B15": "A model that goes in circles is stopped, in text, reasoning and arguments alike.",
    "B16": "Every call of a cut reply is kept, whole ones and cut ones; none is generated again.",
    "B17": "Progress is new content; repeated or reworded preambles refill nothing.",
    # The turn
    "C1": "Arguments that were cut are refused at once, whatever the finish reason says.",
    "C2": "That thinking used up the budget is said only if reasoning came and no visible text.",
    "C3": "Arguments that are malformed but not cut are asked for again at most 3 times, and leave no trace.",
    "C4": "The finish reason is evidence; one verdict weighs it and records why.",
    "C5": "Every request has a legal history for its protocol, and nothing already sent is edited.",
    "C6": "A turn has exactly one outcome, and every surface tells the same one.",
    "C7": "Exceeding a budget ends the turn cleanly.",
    "C8": "What cuts have wasted is counted, with causes.",
    "C9": "Only time in which a run was worked on counts against its limit.",
    "C10": "A structured answer is one document that fits its schema, or the turn says that it does not.",
    "C11": "Names and ids that a provider would refuse never reach it.",
    "C12": "Token and money budgets count what was generated, also in replies that broke without telling their usage.",
    # Tools
    "D1": "A tool runs only from a complete reply, with strictly read arguments that fit its schema.",
    "D2": "Intents and results are durable before what follows them.",
    "D3": "After a crash a started tool is unknown, and runs again only if that is declared safe.",
    "D4": "Never started, unknown, killed and finished are told apart.",
    "D5": "Each call has a time limit, can be cancelled, has capped output and one outcome.",
    "D6": "Independent calls run together, and each end is published when it happens.",
    "D7": "File, shell, web and question tools are built in; file tools stay inside the workspace.",
    "D8": "Approvals are stored things, bound to exact arguments, that any client can answer.",
    "D9": "Two runs that write one file lose no update that either reports.",
    "D10": "Whatever a run leaves running can be seen and ended by its owner, with or without a session.",
    "D11": "After a crash a person is asked only if there is evidence.",
    # The journal
    "E1": "An event is in the journal before any reader sees it.",
    "E2": "A killed process loses nothing seen, repeats no effect and leaves a usable session.",
    "E3": "Power loss keeps everything up to the last intent, result or end.",
    "E4": "Every kind of reading is the same read: after a cursor, then live.",
    "E5": "A reader that does not read is dropped, costs no memory and can come back.",
    "E6": "A session has one writer; one that lost its lease can do nothing.",
    "E7": "The embedded journal needs no set-up; another engine fits behind the same port.",
    "E8": "A damaged journal is found, cut and reported.",
    "E10": "A store that fails, fills up, is damaged or gone is told to clients, readers and readyz, and no run is left without an end.",
    "E9": "A run costs the journal what it adds, however long its conversation is.",
    "E11": "A listing, a page or a search costs what it shows.",
    "E12": "What changes several streams happens as a whole, also when it dies in the middle.",
    # The server
    "F1": "Chat completions and models, streamed and plain, with errors in the known shape.",
    "F2": "Streams start at once and stay alive while silent.",
    "F3": "Tool progress rides on chat streams without tripping any client.",
    "F4": "The responses endpoint, in full, with resuming.",
    "F5": "The runs endpoint: create, read, follow, stop, approve, drafts.",
    "F6": "Idempotency keys are durable and belong to their owner.",
    "F7": "What a disconnect means is chosen by request.",
    "F8": "Heartbeats say what is being waited for.",
    "F9": "Keys are stored hashed, strangers see nothing, and there are limits.",
    "F10": "Official clients and known agents work unchanged.",
    "F11": "A relay heals the streams of other agents, and hands over whole calls only.",
    # Sessions
    "G1": "A session has one active run; a second message is queued, steers, interrupts or is refused.",
    "G2": "Stop ends a turn within a second and says what it did.",
    "G3": "New and reset work while a run is active.",
    "G4": "Reset rules are told to the model and to the user.",
    "G5": "At start exactly the runs in flight are recovered, and a restart cannot loop.",
    "G6": "What is pending survives a restart.",
    "G7": "Sessions can be listed, searched, renamed, forked, exported and deleted.",
    "G8": "Deleting one run costs the conversation that run only.",
    "G9": "What waits says at once for what, in words that a plain client shows.",
    "G10": "After a change of settings every open run goes on, or ends with words.",
    # People
    "H1": "Two commands on a fresh machine: one runs it, one proves it.",
    "H2": "A command line that teaches, shows progress and exits honestly.",
    "H3": "A web console over the live run.",
    "H4": "A lab that plays broken streams for any client, and grades servers.",
    "H5": "Metrics, traces and logs, with secrets removed.",
    "H6": "An interrupt ends the run within a second and keeps the conversation; a force stop is told apart.",
    "H7": "The agent runs on any route that a person chooses; a relay is never chosen by accident.",
    "H8": "Tokens, context and cost are shown for every call, run, session and day, or said to be unknown.",
    "H9": "What a tool will change is shown as a diff before consent, and what it changed after.",
    "H10": "One renderer for approvals; allow once, always, deny with words. Attended surfaces ask first.",
    "H11": "Waste, health and queue can be seen at a glance, in the console and from metrics.",
    "H12": "A run of hundreds of calls stays usable in console and terminal.",
    "H13": "Unknown commands are refused with the nearest one; pipes, narrow terminals and no terminal work.",
    "H14": "Embedding feels like the frameworks people know: types in and out, per-run options, cost.",
    # Faces
    "J1": "Messages and count_tokens, streamed and not, as relay and agent, over every upstream protocol.",
    "J2": "Claude Code and the Anthropic SDKs work unchanged, also over streams that break.",
    "J3": "All of Open Responses: fields, WebSocket, compaction.",
    "J7": "Every face tells the same run: one fold, one table of outcomes, one set of owner and limit rules.",
    "J8": "Installed by one command from a built package into an empty environment; known clients are pointed here by one command.",
    # Long conversations
    "I1": "The runtime knows how large a model's window is and how full it will be, and shows it.",
    "I2": "A conversation that would not fit is made smaller by facts: old results, reasoning, then a summary.",
    "I3": "Compaction splits no pair, and loses neither the task, the last words, prohibitions, drafts nor the read-set.",
    "I4": "It frees a minimum or goes a step further, at most so often a turn, and ends honestly.",
    "I5": "Nothing is lost by it: the past stays readable, searchable and exportable, and a summary can be undone.",
    "I6": "A cut, kill or stop at any point of it leaves the same conversation, once.",
    "I7": "Prompt caches are used where providers have them; what was sent is the exact prefix of what is sent next.",
    "I8": "A relay passes on what it is given, fields, headers, parts and answers, and names what it cannot.",
    "I9": "A relay never compacts: the client owns its context.",
    # Many machines
    "K1": "Postgres behind the same port and the same conformance suite; nothing above the journal knows.",
    "K2": "Any node serves any request about any run.",
    "K3": "A dead node's runs go on elsewhere within a second, nothing twice, readers keep their place.",
    "K4": "A graceful stop hands runs over; two neighbouring versions run side by side.",
    "K5": "A stalled node is fenced: it writes nothing and starts no tool.",
    "K6": "Restart, failover, refusal, fullness and locks of the database are waited out and told; nothing `SURE` is lost.",
    "K7": "Limits, quotas, keys, health of routes and idempotency hold over all nodes.",
    "K8": "Large outputs and files have a place that all nodes reach, or the run stays where they are.",
    "K9": "Moving from SQLite to Postgres and back loses nothing and can be broken off and gone on with.",
    "K10": "Figures, charts and one page of instructions from one node to ten.",
    "K11": "Workers share a port; one that dies loses nothing and is replaced; a stop drains all of them.",
    # Tools from elsewhere
    "M1": "Tools of MCP servers of any revision are offered and called like others, behind consent.",
    "M2": "A server that dies, hangs, lies or floods is bounded and told; nothing is repeated unless declared safe.",
    # Strangers
    "R1": "Nothing that a client, page, model, file or archive sends holds the event loop for more than 250 ms.",
    "R2": "What is another owner's is not readable by any way: import, fork, search, export, metrics.",
    "R3": "Secrets of the settings reach no model, tool, log, trace, answer or tenant, whole or in part.",
    "R4": "A revoked key ends its streams.",
    "R5": "Settings, tool modules, hooks, .git and the data folder are out of the model's reach.",
    "R6": "Consent rules judge what a call does, not how it is spelled.",
    "R7": "Commands and MCP servers run in a sandbox where one exists, and what holds is said.",
    "R8": "Requests that a model makes reach public addresses only, checked on the connection itself.",
    "R9": "Other users of the machine are strangers.",
    "R10": "A folder's settings are trusted by a person, once per content.",
    "R11": "What is printed to a terminal cannot command it, and an approval shows all that it is for.",
    "R12": "Every cap (bodies, connections, calls, output, archives) holds under attack, and everybody else is served meanwhile.",
}

DUE: frozenset[str] = frozenset(
    "J1 J2 J3 J7 J8 "
    "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 "
    "B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11 B12 B13 B14 B15 B16 B17 "
    "C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 "
    "D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 "
    "E1 E2 E3 E4 E5 E6 E7 E8 E9 E10 E11 E12 "
    "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 "
    "G1 G2 G3 G4 G5 G6 G7 G8 G9 G10 "
    "H1 H2 H3 H4 H5 H6 H7 H8 H11 H12 H13 "
    "I1 I2 I3 I4 I5 I6 I7 I8 I9 "
    "K1 K2 K3 K4 K5 K6 K8 K9 K10 K11 "
    "M1 M2 "
    "R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12".split()
)
