"""The first half hour of somebody new, from a copy of the project to a finished task, as one story on a route of the lab."""

import json
import tomllib
import urllib.error
import urllib.request

import pytest
from support.processes.cloned_project import clone_into, make_run
from support.processes.commands import accept, command
from support.processes.reserved_port import reserved_port
from support.processes.served_folder import lab_in_thread, until

from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Call, Finish, Say, Stall

pytestmark = [pytest.mark.process, pytest.mark.realtime]

NOTE = "milk\ntea\nbread\n"
BEGUN, REST = "The list is written. It has three lines, ", "and bread stands last."
LONG = "Once upon a time there was a list"


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def got(address, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"})
    with _direct.open(request, timeout=100) as answer:
        return answer.read()


def answers(address):
    try:
        return got(f"{address}/healthz")
    except (urllib.error.URLError, ConnectionError):
        return b""


def said_last(request):
    return [message for message in request.body["messages"] if message["role"] == "user"][-1]["content"]


def model(request):
    """Greets whoever tries it, writes a file, falls silent once in the middle of a sentence, and tells a long story."""
    said = str(said_last(request))
    if "note_word" in said:
        return (Call("note_word", {"word": "tea"}, 40), Finish())
    if "shopping list" in said and not brings_results(request):
        return (Call("write_file", {"path": "list.txt", "content": NOTE}, 40), Finish())
    if "story" in said and "[Runtime]" not in said:
        on_and_on = [step for number in range(300) for step in (Stall(0.3), Say(f" and {number}"))]
        return (Say(LONG), *on_and_on, Finish())
    if "Where were we" in said:
        return (Say("In the story of the list."), Finish())
    if brings_results(request) and "[Runtime]" not in said:
        return (Say(BEGUN), Stall("forever"))
    if "[Runtime]" in said:
        return (Say(REST), Finish())
    return (Say("Hello."), Finish())


def serve_a_clone(folder):
    """A clone, and the first command of the README: a server that answers, without a key and without a network."""
    clone = clone_into(folder / "turnbuckle")
    with reserved_port() as port, make_run(clone, "--port", str(port), "--no-open") as serving:
        address = f"http://127.0.0.1:{port}"
        until(lambda: serving.poll() is not None or answers(address), (clone / "make.log").read_text)
        assert got(f"{address}/").startswith(b"<!doctype html>")
        body = {"model": "agent", "messages": [{"role": "user", "content": "write made.txt with 2 lines"}]}
        told = json.loads(got(f"{address}/v1/chat/completions", body))
        assert "made.txt" in told["choices"][0]["message"]["content"]
        assert len((clone / "made.txt").read_text().splitlines()) == 2
    assert "set-up" not in (clone / "make.log").read_text()


@pytest.mark.long(8)
@pytest.mark.requirement("H1", "H2", "H6", "H8", "H10", "B3")
def test_the_first_half_hour(terminal, tmp_path):
    serve_a_clone(tmp_path)
    home = tmp_path / "project"
    home.mkdir()
    # The command does the same at once, anywhere.
    tried = command(home, "run", "write hello.txt with 3 lines and cut")
    assert tried.code == 0, tried.err
    assert "stream broke" in tried.err
    assert len((home / "hello.txt").read_text().splitlines()) == 3

    with lab_in_thread(model) as lab:
        # A provider is set up and tried by one command.
        made = command(home, "init", "--base-url", f"{lab.url}/v1", "--model", "m", "--yes")
        assert made.code == 0, made.err + made.out
        settings = home / "turnbuckle.toml"
        assert tomllib.loads(settings.read_text())["routes"][0]["model"] == "m"
        price = settings.read_text().replace('model = "m"', 'model = "m"\nprice = { input = 3, output = 15 }')
        settings.write_text(f"{price}[stall]\ngap = 4\n")
        accept(home)
        assert command(home, "doctor").code == 0

        chat = terminal(home, columns=100, git=False).turnbuckle("chat", "--session", "first")
        chat.wait_for("/help lists")

        # A change is seen, and approved: no rule speaks of it, and this folder is not in a git work tree.
        chat.type("make a shopping list")
        chat.send("Enter")
        asked = chat.wait_for("/n ›")
        assert "not in a git work tree" in asked
        assert "list.txt +3 −0" in asked
        assert "+bread" in asked
        assert not (home / "list.txt").exists()
        chat.type("y")
        chat.send("Enter")

        # The stream falls silent in the middle of a sentence, and is healed.
        chat.wait_for("completed after")
        assert (home / "list.txt").read_text() == NOTE
        told = " ".join(chat.text().split())
        assert told.count(BEGUN + REST) == 1, told
        assert "stream broke" in told or "stall" in told

        # An interrupt keeps the conversation.
        chat.type("tell me a story")
        chat.send("Enter")
        chat.wait_for(LONG)
        chat.send("Escape")
        chat.wait_for("cancelled after")
        chat.type("Where were we?")
        chat.send("Enter")
        chat.wait_for("In the story of the list.")
        chat.wait_until(lambda _: chat.text().count("completed after") == 2)
        sent = json.dumps(lab.provider.requests[-1].body["messages"])
        assert "shopping list" in sent
        assert LONG in sent

        # What it has cost is shown.
        chat.type("/cost")
        chat.send("Enter")
        chat.wait_until(lambda screen: "This session" in screen and "$0.0" in screen, "what it has cost")
        chat.send("C-d")
        assert chat.code() == 0
        assert "Traceback" not in chat.text()

    listed = json.loads(command(home, "runs", "list", "--json").out)
    assert [run["status"] for run in listed[:3]] == ["completed", "cancelled", "completed"]
