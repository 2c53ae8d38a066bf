"""How the console looks and feels: small windows, the keyboard alone, light and dark, screen readers, foreign links."""

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import (
    PHONE,
    gone,
    is_sideways,
    keep_picture,
    last_run,
    reaches,
    run_id,
    say,
    shown,
)
from support.server.live_server import gate

from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process

ASKING = 'workspace = "work"\n[tools.approval]\nshell = "ask"\n'
KEYED = 'workspace = "work"\n[server]\napi_keys = ["tb-a-key-for-the-tests-0123456789"]\n'
LONG = "a-word-without-any-place-to-break-it-" * 8


@pytest.mark.requirement("H3")
def test_nothing_is_wider_than_a_phone_and_the_sessions_are_in_a_drawer(visit, serve):
    def model(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            table = "| a | b | c |\n|---|---|---|\n" + f"| {LONG} | {LONG} | 3 |\n"
            return (Say(f"# {LONG}\n\n{table}\n```\n{LONG}\n```\n\n{LONG}"), Finish())
        return (Call("shell", {"command": f"echo {LONG}"}), Finish())

    tools = 'approval = { shell = "ask" }'
    server = serve(model=model, tools=tools)
    page = visit(server.url).open(viewport=PHONE, has_touch=True)
    assert not is_sideways(page)
    sessions = page.get_by_role("navigation", name="Sessions")
    gone(sessions)
    say(page, f"run {LONG}")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    assert not is_sideways(page)
    keep_picture(page, "phone-approval")
    run.get_by_role("button", name="Allow").click()
    reaches(run, "completed")
    assert not is_sideways(page)
    keep_picture(page, "phone-run")
    page.get_by_role("button", name=re.compile("menu|sessions", re.I)).first.click()
    shown(sessions)
    keep_picture(page, "phone-drawer")
    assert accessibility_problems(page) == []
    page.keyboard.press("Escape")
    gone(sessions)
    for address in ("#/", "#/runs", "#/approvals", "#/settings", f"#/r/{run_id(run)}"):
        page.goto(f"{server.url}/{address}")
        shown(page.get_by_role("heading", level=1).first)
        assert not is_sideways(page), address
        assert accessibility_problems(page) == [], address


@pytest.mark.requirement("H3")
def test_a_turn_needs_nothing_but_the_keyboard(visit, serve):
    server = serve(ASKING)
    page = visit(server.url).open()
    _tab_to(page, "textbox", "Message")
    page.keyboard.type("run touch made")
    page.keyboard.press("Enter")
    reaches(last_run(page), "waiting_for_approval")
    _tab_to(page, "button", "Allow")
    page.keyboard.press("Enter")
    reaches(last_run(page), "completed")
    assert (server.work / "made").exists()
    _tab_to(page, "textbox", "Message")
    page.keyboard.type("list files")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("please")
    page.keyboard.press("Control+Enter")
    shown(page.locator("article.run"), 2)
    reaches(last_run(page), "completed")


def _tab_to(page, role, name):
    """Press Tab until that has the focus, and see that the focus can be seen on the way."""
    wanted = page.get_by_role(role, name=name)
    for _ in range(60):
        if wanted.count() and wanted.first.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
        drawn = page.evaluate(
            "() => { const drawn = (one) => getComputedStyle(one).outlineStyle !== 'none';"
            " const at = document.activeElement;"
            " return at === document.body || drawn(at) || [...document.querySelectorAll(':focus-within')].some(drawn); }"
        )
        assert drawn, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    raise AssertionError(f"Tab never comes to the {role} {name}")


@pytest.mark.requirement("H3")
def test_light_and_dark_follow_the_system_until_somebody_chooses(visit, serve):
    server = serve()
    page = visit(server.url).open(color_scheme="dark")
    shown(page.get_by_role("textbox", name="Message", exact=True))
    dark = _background(page)
    page.emulate_media(color_scheme="light")
    light = _background(page)
    assert sum(light) > 600
    assert sum(dark) < 200
    _choose(page, "Dark")
    assert _background(page) == dark
    page.reload()
    shown(page.get_by_role("textbox", name="Message", exact=True))
    assert _background(page) == dark
    _choose(page, "System")
    assert _background(page) == light


def _background(page):
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


def _choose(page, word):
    control = page.get_by_label(re.compile("theme|colours", re.I)).first
    if control.evaluate("element => element.tagName") == "SELECT":
        control.select_option(label=word)
    else:
        page.get_by_role("radio", name=word).check(force=True)


@pytest.mark.requirement("H3")
@pytest.mark.parametrize("address", ["#/", "#/runs", "#/approvals", "#/settings", "#/nowhere"])
def test_a_screen_reader_finds_nothing_wrong_with_a_page(address, visit, serve):
    server = serve()
    server.ended(server.say("broken", "write a.txt with 50 lines and cut"))
    page = visit(server.url).open(address)
    shown(page.get_by_role("heading", level=1).first)
    shown(page.get_by_role("navigation", name="Sessions").get_by_role("link"), 1)
    assert accessibility_problems(page) == []


@pytest.mark.requirement("H3")
def test_a_screen_reader_finds_nothing_wrong_with_a_run_at_any_time(visit, serve):
    def model(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return (
                Say(
                    "# Done\n\nIt **is** [so](http://127.0.0.1/).\n\n- one\n- two\n\n```python\nx = 1\n```\n"
                ),
                gate(1),
                Finish(),
            )
        return (Say("Now then."), Call("shell", {"command": "echo hello"}), Finish())

    tools = 'approval = { shell = "ask" }'
    server = serve(model=model, tools=tools)
    page = visit(server.url).open()
    say(page, "do it")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    assert accessibility_problems(page) == []
    run.get_by_role("button", name="Allow").click()
    shown(run.get_by_role("heading", name="Done"))
    assert accessibility_problems(page) == []
    server.behind.open(1)
    reaches(run, "completed")
    for part in run.locator("details").all():
        part.evaluate("element => { element.open = true }")
    assert accessibility_problems(page) == []
    keep_picture(page, "a-run-unfolded")


@pytest.mark.requirement("H3")
def test_a_screen_reader_finds_nothing_wrong_with_breaks_and_their_ends(visit, serve):
    server = serve()
    for words in ("write a.txt with 50 lines and cut", "read nothing.txt", "run exit 3", "think about it"):
        server.ended(server.say("breaks", words))
    page = visit(server.url).open("#/s/breaks")
    for run in page.locator("article.run").all():
        run.scroll_into_view_if_needed()
        reaches(run, "completed")
    for part in page.locator("main details").all():
        part.evaluate("element => { element.open = true }")
    assert accessibility_problems(page) == []
    keep_picture(page, "breaks")


@pytest.mark.requirement("H3")
def test_a_screen_reader_finds_nothing_wrong_with_the_login(visit, serve):
    server = serve(KEYED)
    visitor = visit(server.url)
    visitor.watch.forgive("status of 401")
    page = visitor.open()
    shown(page.get_by_label("API key"))
    assert accessibility_problems(page) == []


@pytest.mark.requirement("H3", "F9")
def test_a_link_on_a_page_of_another_origin_opens_the_console(visit, serve):
    server = serve()
    with _foreign_page(f'<a href="{server.url}/">console</a>') as elsewhere:
        visitor = visit(server.url)
        visitor.watch.forgive("asks a foreign host: http://localhost:")
        page = visitor.open()
        page.goto(elsewhere)
        page.get_by_role("link", name="console").click()
        shown(page.get_by_role("textbox", name="Message", exact=True))
        say(page, "list files")
        reaches(last_run(page), "completed")
        assert page.url.startswith(f"{server.url}/#/s/")
        assert [run["title"] for run in server.get("/v1/runs")["data"]] == ["list files"]


@contextmanager
def _foreign_page(content):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<!doctype html><link rel=icon href=data:,>{content}".encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
