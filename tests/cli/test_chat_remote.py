"""A chat with a real server on real sockets: lost connections, other people, and what waits."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from support.cli.scripted_chat import RecordingView, controller_of, eventually, no_pause
from support.processes.reserved_port import reserved_port
from support.server.live_server import PATIENCE, gate, lab_provider, run, run_scenario, serve_live

from turnbuckle.cli.backend import BackendRefused, Lost
from turnbuckle.cli.remote import Remote
from turnbuckle.cli.remote_backend import RemoteBackend
from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, Reason, Say

FIRST = "# A plan\n\nI write it down, "
LAST = "and now it is done:\n\n- one\n- two\n"


def worker(request):
    """Thoughts, text, two tools, and an answer in several pieces."""
    if not results_brought(request):
        calls = (Call("shell", {"command": "echo 1; echo 2"}), Call("read_file", {"path": "none.txt"}))
        return (Reason("Hm."), Say(FIRST), *calls, Finish())
    return (*(Say(LAST[at : at + 9]) for at in range(0, len(LAST), 9)), Finish())


def remote(live, port=None):
    return RemoteBackend(Remote(f"http://127.0.0.1:{live.port if port is None else port}"))


class Cutter:
    """Stands between a client and the server, and cuts the first stream of events behind so many of them."""

    def __init__(self, port, events):
        self._port = port
        self._left = events
        self.cut = False
        self._lines = set()

    @asynccontextmanager
    async def open(self):
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for line in self._lines:
                line.cancel()
            await asyncio.gather(*self._lines, return_exceptions=True)

    def _take(self, reader, writer):
        self._lines.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        inside, outside = await asyncio.open_connection("127.0.0.1", self._port)
        outside.write(head)
        going = asyncio.ensure_future(self._pump(reader, outside))
        try:
            while (data := await inside.read(1 << 16)) and not self.cut_in(head, data, writer):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            going.cancel()
            outside.transport.abort()
            writer.close()

    def cut_in(self, head, data, writer):
        if b"/events" not in head or self.cut or self._left is None:
            return False
        parts = data.split(b"\n\n")
        if len(parts) - 1 <= self._left:
            self._left -= len(parts) - 1
            return False
        self.cut = True
        writer.write(b"".join(part + b"\n\n" for part in parts[: self._left]) + parts[self._left][:7])
        return True

    async def _pump(self, reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)


async def _through(live, cutter, session):
    """One whole turn of a chat behind a cutter, and its screen."""
    async with cutter.open() as port:
        talk, front = controller_of(
            remote(live, port), RecordingView(60), session, reasoning=True, new_name=lambda kind: session
        )
        await talk.open()
        talk.entered("do it")
        async with asyncio.timeout(PATIENCE):
            await talk.settled()
        await talk.close()
        return talk, front


@pytest.mark.requirement("E4", "H2")
def test_a_stream_that_is_cut_behind_any_event_gives_the_same_screen(tmp_path):
    async def scenario(live):
        whole = (await _through(live, Cutter(live.port, None), "whole"))[1]
        assert whole.text == "Hm." + FIRST + LAST
        assert whole.story[0] == "› do it"
        cuts = 0
        for events in range(1, 200):
            cutter = Cutter(live.port, events)
            talk, front = await _through(live, cutter, f"cut-{events}")
            assert front.story == whole.story
            assert talk.code == 0
            if not cutter.cut:
                break
            assert "connected again" in front.replies
            cuts += 1
        assert cuts >= 8

    run_scenario(scenario, tmp_path, worker)


def waiting(request):
    task = last_user_text(request)
    return (
        (Say(f"Answer to {task}: "), gate(1), Say("done."), Finish())
        if task == "slow"
        else (Say(task), Finish())
    )


@pytest.mark.requirement("G6", "H2")
def test_a_server_that_is_restarted_in_the_middle_goes_on_in_the_same_chat(tmp_path):
    async def main():
        async with lab_provider(waiting) as behind:
            async with serve_live(tmp_path, behind, server="drain = 0") as live:
                place = remote(live)
                talk, front = controller_of(place)
                await talk.open()
                talk.entered("slow")
                await eventually(lambda: front.text == "Answer to slow: ")
            await eventually(lambda: talk.view().lost)
            assert "connection lost, trying again" in front.replies[-1]
            behind.gates.open(1)
            async with serve_live(tmp_path, behind, server="drain = 0") as live:
                place._remote.address = f"http://127.0.0.1:{live.port}"
                await talk.settled()
                assert front.said == ["slow"]
                assert front.text.count("Answer to slow") == 1
                assert talk.code == 0
                await talk.close()

    run(main())


@pytest.mark.requirement("G1", "G2", "H2")
def test_what_waits_is_answered_in_the_order_of_the_session_and_a_stop_is_told(tmp_path):
    async def scenario(live):
        talk, front = controller_of(remote(live))
        await talk.open()
        talk.entered("slow")
        await eventually(lambda: front.text)
        talk.entered("second")
        talk.entered("/interrupt first")
        await talk.settled()
        assert front.said == ["slow", "first", "second"]
        ends = [line.split()[0] for line in front.lines if " after " in line]
        assert ends == ["cancelled", "completed", "completed"]
        assert talk.code == 0
        talk.entered("/undo")
        await eventually(lambda: front.replies[-1].startswith("Undone"))
        talk.entered("/stop")
        await eventually(lambda: "There is nothing to do." in front.lines)
        talk.entered("/status")
        await eventually(lambda: front.replies[-1].startswith("Nothing runs."))
        talk.entered("/undo compaction")
        await talk.settled()
        assert front.replies[-1] == "There is nothing to do."
        await talk.close()

    run_scenario(scenario, tmp_path, waiting)


@pytest.mark.requirement("G2", "H2")
def test_a_compaction_that_is_refused_since_something_runs_is_told_and_not_waited_for(tmp_path):
    async def scenario(live):
        talk, front = controller_of(remote(live))
        await talk.open()
        talk.entered("slow")
        await eventually(lambda: front.text)
        talk.entered("/compact")
        await eventually(lambda: "is under way" in "".join(front.replies))
        live.behind.gates.open(1)
        await talk.settled()
        await talk.close()
        return front.replies

    replies = run_scenario(scenario, tmp_path, waiting, more='[session]\nbusy = "refuse"')
    assert "is under way" in "".join(replies)


def asking(request):
    if results_brought(request):
        return (Say("Then not."), Finish())
    return (Call("shell", {"command": "echo hi"}), Finish())


@pytest.mark.requirement("D8", "H2")
@pytest.mark.parametrize("typed, shown", [("n not now", "The user said no. not now"), ("y", "hi")])
def test_a_server_asks_and_is_answered_in_the_chat(typed, shown, tmp_path):
    async def scenario(live):
        talk, front = controller_of(remote(live))
        await talk.open()
        talk.entered("do it")
        await eventually(lambda: talk.question is not None)
        assert "? May shell run this?" in front.replies
        assert talk.entered(typed, talk.asking) == "answer"
        await talk.settled()
        assert any(shown in line for line in front.lines)
        await talk.close()

    run_scenario(scenario, tmp_path, asking, tools='approval = { shell = "ask" }')


@pytest.mark.requirement("D8")
def test_an_answer_that_somebody_gives_elsewhere_takes_the_question_away(tmp_path):
    async def scenario(live):
        talk, front = controller_of(remote(live))
        await talk.open()
        talk.entered("do it")
        await eventually(lambda: talk.question is not None)
        asked = talk.question.approval
        current = (await live.get("/v1/runs?session=work")).json["data"][0]["id"]
        await live.post(f"/v1/runs/{current}/approvals/{asked}", {"decision": "deny", "text": "no"})
        await talk.settled()
        assert talk.question is None
        assert "denied: no" in front.lines
        await talk.close()

    run_scenario(scenario, tmp_path, asking, tools='approval = { shell = "ask" }')


@pytest.mark.requirement("H2")
def test_a_chat_that_opens_later_shows_what_was_said_and_follows_what_runs(tmp_path):
    async def scenario(live):
        first, _ = controller_of(remote(live))
        await first.open()
        first.entered("earlier")
        await first.settled()
        first.entered("slow")
        await eventually(lambda: first.view().running)
        await first.close()
        second, front = controller_of(remote(live))
        await second.open()
        assert front.said[:1] == ["earlier"]
        assert front.text.startswith("earlier")
        assert "a run is under way here:" in front.replies
        await eventually(lambda: "Answer to slow: " in front.text)
        live.behind.gates.open(1)
        await eventually(lambda: "done." in front.text)
        assert await remote(live).latest() == "work"
        await second.close()

    run_scenario(scenario, tmp_path, waiting)


def test_lists_drafts_and_the_ledger_come_from_the_server(tmp_path):
    async def scenario(live):
        place = remote(live)
        talk, front = controller_of(place)
        await talk.open()
        for line in ("/runs", "/drafts", "/sessions nothing", "/ledger", "/status"):
            talk.entered(line)
        await talk.settled()
        nothing = ["no runs yet", "no open drafts", "no sessions", "nothing was run yet"]
        assert front.replies[1:] == [*nothing, "Nothing was said in this session yet."]
        talk.entered("a word")
        await talk.settled()
        for line in ("/runs", "/sessions word", "/sessions", "/ledger", "/cost", "/model"):
            talk.entered(line)
        await talk.settled()
        runs, found, listed, ledger, cost, models = front.replies[-6:]
        assert "completed  a word" in runs
        assert "* work" in found
        assert "* work" in listed
        assert ledger == "nothing was wasted"
        assert "This session: 1 run," in cost
        assert models.splitlines()[0] == "* agent  m"
        with pytest.raises(BackendRefused):
            await place.draft("r1:d1")
        await talk.close()
        later, front = controller_of(place)
        await later.open()
        for line in ("/ledger", "/drafts show d1"):
            later.entered(line)
        await later.settled()
        assert front.replies[-2:] == ["nothing was wasted", "there is no draft d1; /drafts lists them"]
        await later.close()

    run_scenario(scenario, tmp_path, waiting)


def test_a_server_that_is_not_there_is_lost_and_a_key_that_is_no_good_is_refused(tmp_path):
    async def scenario(live):
        live.owner("ann")
        with pytest.raises(BackendRefused, match=r"401: .*; --key gives one"):
            await remote(live).latest()
        with pytest.raises(BackendRefused, match=r"401: .*; --key gives one"):
            async for _ in remote(live).follow("r1", 0):
                pass
        with reserved_port() as nobody:
            gone = remote(live, nobody)
            with pytest.raises(Lost):
                await gone.latest()
            with pytest.raises(Lost):
                async for _ in gone.follow("r1", 0):
                    pass
        await no_pause(0)

    run_scenario(scenario, tmp_path, waiting)


@pytest.mark.requirement("R7")
def test_a_chat_through_a_server_knows_where_the_commands_run_there(tmp_path):
    async def scenario(live):
        told = (await live.get("/v1/settings")).json["sandbox"]
        assert await remote(live).sandbox() == told["words"] != ""

    run_scenario(scenario, tmp_path, worker)
