"""What readers of the console rely on in odd moments: long texts that grow, small windows, hostile words, dead addresses."""

import json
import re
from itertools import pairwise

import pytest
from support.browser.chromium import PHONE, gone, is_sideways, last_run, reaches, run_id, say, shown
from support.processes.served_folder import until
from support.server.live_server import gate

from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Call, Finish, More, Say

pytestmark = pytest.mark.process

ASKING = 'workspace = "work"\n[tools.approval]\nshell = "ask"\n'
KEY = "tb-a-key-for-the-tests-0123456789"
KEYED = f'workspace = "work"\n[server]\napi_keys = ["{KEY}"]\n'
FOUND_NOTHING = r"status of 404"
LINES = [f"line {number} of a file with many lines in it\n" for number in range(12_000)]
WROTE = json.dumps({"path": "a.txt", "content": "".join(LINES)})


def _a_large_file(request):
    if brings_results(request):
        return (Say("It is written."), Finish())
    cuts = (0, 190_000, 280_000, 370_000, len(WROTE))
    parts = [WROTE[start:end] for start, end in pairwise(cuts)]
    first = Call("write_file", parts[0], pieces=700, closed=False)
    return (
        first,
        gate(1),
        More(parts[1], closed=False),
        gate(2),
        More(parts[2], closed=False),
        gate(3),
        *_rest(parts),
    )


def _rest(parts):
    return (More(parts[3], pieces=700), Finish())


def _from_end(box):
    """Pixels between what is seen and the end."""
    return box.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight")


def _is_at_end(box):
    return _from_end(box) < 3


def _go_up(page, box):
    """Turn the wheel over a box until it stands still far above its end."""

    def turned():
        if _from_end(box) < 890:
            box.hover()  # the page may have moved it away from under the mouse
            page.mouse.wheel(0, -900)
        return box.evaluate(STANDS_STILL) and _from_end(box) > 890

    until(turned, lambda: _from_end(box))


STANDS_STILL = """async box => {
  const top = box.scrollTop;
  for (let frame = 0; frame < 5; frame += 1) await new Promise(requestAnimationFrame);
  return box.scrollTop === top;
}"""


def _line_in_sight(box):
    """A line in the middle of a box."""
    return box.evaluate(
        """box => {
          box.scrollIntoView({ block: "center" });
          const { left, top, height } = box.getBoundingClientRect();
          const { startContainer: text, startOffset: at } = document.caretRangeFromPoint(left + 12, top + height / 2);
          return text.data.slice(text.data.lastIndexOf("\\n", at - 1) + 1).split("\\n")[0];
        }"""
    )


def _place(box, line):
    """How many pixels a line stands below the upper edge of its box."""
    return box.evaluate(
        """(box, line) => {
          const text = box.firstChild;
          const at = text.data.indexOf(`${line}\\n`);
          const range = document.createRange();
          range.setStart(text, at);
          range.setEnd(text, at + 1);
          return Math.round(range.getBoundingClientRect().top - box.getBoundingClientRect().top);
        }""",
        line,
    )


def _arrived(run, characters):
    """Wait until so many characters of the call are said to be there."""
    state = run.locator(".tool .state")
    until(lambda: int(re.sub(r"\D", "", state.inner_text()) or 0) >= characters, state.inner_text)


@pytest.mark.requirement("H3")
def test_a_file_that_arrives_is_followed_to_its_end_and_a_reader_who_goes_up_is_left_alone(visit, serve):
    server = serve(model=_a_large_file)
    page = visit(server.url).open()
    say(page, "write it")
    run = last_run(page)
    box = run.get_by_role("group", name="content")
    _arrived(run, 190_000)
    until(lambda: _is_at_end(box))
    server.behind.open(1)  # more than the page holds: its beginning goes
    _arrived(run, 280_000)
    until(lambda: _is_at_end(box))
    page.set_viewport_size(PHONE)  # its lines break again
    until(lambda: _is_at_end(box))
    page.set_viewport_size({"width": 1280, "height": 800})
    until(lambda: _is_at_end(box))

    _go_up(page, box)
    line = _line_in_sight(box)
    place = _place(box, line)
    for number, characters in ((2, 370_000), (3, len(WROTE))):
        server.behind.open(number)
        if number == 2:
            _arrived(run, characters)
    reaches(run, "completed")
    assert abs(_place(box, line) - place) <= 1
    run.get_by_role("button", name=re.compile("^Show all")).click()
    assert abs(_place(box, line) - place) <= 1
    assert box.inner_text() == "".join(LINES)


@pytest.mark.requirement("H3", "D8")
def test_what_is_allowed_on_a_phone_is_seen_whole_and_in_its_true_order(visit, serve):
    command = "touch made # \u202eyllaer si siht\u202c and then it goes on for a while, to here"
    assert len(command) <= 72  # short enough for one line of a wide window

    def model(request):
        return (
            (Say("Done."), Finish())
            if brings_results(request)
            else (Call("shell", {"command": command}), Finish())
        )

    server = serve(model=model, tools='approval = { shell = "ask" }')
    visitor = visit(server.url)
    page = visitor.open(viewport=PHONE)
    say(page, "do it")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    told = command.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c")
    whole = run.get_by_role("group", name="Command")
    shown(whole)
    assert whole.inner_text() == told
    assert not run.locator(".member").get_by_text("command").is_visible()  # once is enough
    assert not whole.evaluate(
        "one => one.scrollWidth > one.clientWidth && getComputedStyle(one).overflow !== 'visible'"
    )
    assert not is_sideways(page)
    other = visitor.open("#/approvals")
    drawn = other.get_by_role("group", name="Command")
    shown(drawn)
    assert drawn.inner_text() == told
    assert drawn.evaluate("one => one.scrollWidth <= one.clientWidth")  # all of it is in sight
    gone(other.get_by_role("group", name="Arguments"))
    shown(other.get_by_role("textbox", name="Message to the model"))  # the same card as in the run


@pytest.mark.requirement("H3", "D8")
def test_a_long_command_that_waits_for_a_person_is_seen_from_its_beginning(visit, serve):
    command = "touch first\n" + "".join(f"echo {number}\n" for number in range(100))

    def model(request):
        return (Call("shell", {"command": command}, pieces=20), Finish())

    server = serve(model=model, tools='approval = { shell = "ask" }')
    page = visit(server.url).open()
    say(page, "do it")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    box = run.get_by_role("group", name="Command", exact=True)
    shown(box)
    until(lambda: box.evaluate("box => box.scrollTop") == 0)
    assert box.inner_text().startswith("touch first\n")
    assert box.evaluate("box => box.scrollHeight > 2 * box.clientHeight")  # so there was an end to stand at


@pytest.mark.requirement("H3")
@pytest.mark.parametrize("address", ["#/r/nonesuch", "#/s/nonesuch"])
def test_an_address_of_nothing_says_so_once_and_waits_for_nothing(address, visit, serve):
    server = serve()
    visitor = visit(server.url)
    visitor.watch.forgive(FOUND_NOTHING)
    page = visitor.open(address)
    sentence = page.get_by_text(re.compile(r"^There is no (run|session) 'nonesuch'\.$"))
    shown(sentence.and_(page.locator(":visible")), 1)
    gone(page.get_by_text("Connecting"))
    assert page.url.endswith(address)
    assert server.get("/v1/sessions")["data"] == server.get("/v1/runs")["data"] == []


@pytest.mark.requirement("H3")
def test_a_session_that_another_client_deletes_is_said_to_be_deleted(visit, serve):
    server = serve()
    visitor = visit(server.url)
    visitor.watch.forgive(FOUND_NOTHING)
    server.ended(server.say("mine", "list files"))
    page = visitor.open("#/s/mine")
    reaches(last_run(page), "completed")
    server.ask("DELETE", "/v1/sessions/mine")
    shown(page.get_by_text("This session was deleted."))
    shown(page.locator("article.run"), 0)
    assert server.get("/v1/sessions")["data"] == []  # and nobody made it again


@pytest.mark.requirement("H3")
def test_the_list_of_runs_says_how_they_stand_in_the_words_of_their_cards(visit, serve):
    server = serve(ASKING)
    run, asking = server.begin("list files"), server.begin("run touch made")
    server.ended(run)
    page = visit(server.url).open("#/runs")
    shown(page.locator(f"li[data-run={asking}]").get_by_text("Waits for you"))
    badge = page.locator(f"li[data-run={run}] .status")
    shown(badge)
    assert badge.inner_text() == "Completed"
    assert badge.evaluate("one => getComputedStyle(one, '::before').content") == '""'  # one dot, not two
    page.goto(f"{server.url}/#/r/{run}")
    reaches(last_run(page), "completed")
    assert run_id(last_run(page)) == run
    assert last_run(page).locator(".status").inner_text() == "Completed"


@pytest.mark.requirement("H3", "F9")
def test_who_logs_out_leaves_nothing_on_the_page(visit, serve):
    server = serve(KEYED + '[tools.approval]\nshell = "ask"\n', key=KEY)
    visitor = visit(server.url)
    visitor.watch.forgive(r"status of 401")
    server.say("mine", "run touch made")
    page = visitor.open("#/settings")
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Log in").click()
    side = page.locator("#side")
    shown(side.get_by_text("run touch made"))
    shown(side.get_by_text("1 waits"))
    page.get_by_role("button", name="Log out").click()
    shown(page.get_by_label("API key"))
    gone(side.get_by_text("run touch made"))
    gone(side.get_by_text("1 waits"))
    gone(side.get_by_text("No sessions yet."))
    assert "touch made" not in page.locator("body").inner_text()
    assert KEY not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
