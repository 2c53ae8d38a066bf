"""The console where a person decides, searches, reads and logs in."""

import re

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import gone, keep_picture, last_run, reaches, run_id, say, shown
from support.processes.served_folder import until

from turnbuckle.lab.script import Call, CutOff, Finish, Say

pytestmark = pytest.mark.process

PHONE = {"width": 390, "height": 780}

ASKING = 'workspace = "work"\n[tools.approval]\nshell = "ask"\n'
KEY = "tb-a-key-for-the-tests-0123456789"
KEYED = f'workspace = "work"\n[server]\napi_keys = ["{KEY}"]\n'
REFUSED = r"status of 401"


@pytest.mark.requirement("H3", "D8")
@pytest.mark.parametrize("button, made_it", [("Allow", True), ("Deny", False)])
def test_a_call_waits_for_a_person_who_sees_exactly_what_would_run(button, made_it, visit, serve):
    server = serve(ASKING)
    page = visit(server.url).open()
    say(page, "run touch made")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    shown(run.get_by_text("touch made").first)
    assert not (server.work / "made").exists()
    keep_picture(page, "an-approval")
    run.get_by_role("button", name=button).click()
    reaches(run, "completed")
    assert (server.work / "made").exists() == made_it
    gone(run.get_by_role("button", name="Allow"))
    shown(
        run.locator(".body")
        .get_by_text(re.compile("allowed" if made_it else "denied|not allowed", re.I))
        .first
    )


@pytest.mark.requirement("H3", "D8")
def test_what_is_answered_in_one_window_is_settled_in_the_other(visit, serve):
    server = serve(ASKING)
    visitor = visit(server.url)
    one = visitor.open()
    say(one, "run touch made")
    reaches(last_run(one), "waiting_for_approval")
    other = visitor.open("#/approvals")
    shown(other.get_by_role("button", name="Allow"))
    keep_picture(other, "approvals")
    shown(other.locator(".sessions .dot.waits", has_text="waits for you"))
    other.get_by_role("button", name="Allow").click()
    reaches(last_run(one), "completed")
    gone(last_run(one).get_by_role("button", name="Allow"))
    gone(other.get_by_role("button", name="Allow"))
    gone(other.locator(".sessions .dot"))
    assert (server.work / "made").exists()


@pytest.mark.requirement("H10")
def test_what_is_always_allowed_is_listed_and_taken_away_again(visit, serve):
    server = serve(ASKING)
    run = server.begin("run touch made")
    page = visit(server.url).open("#/approvals")
    rules = page.get_by_role("region", name="Always allowed")
    page.get_by_role("button", name="Always").click()
    shown(rules.get_by_text('"shell:touch made" = "allow"'))
    server.ended(run)
    assert accessibility_problems(page) == []
    rules.get_by_role("button", name="Remove").click()
    gone(rules)
    assert server.get("/v1/rules")["data"] == []
    server.begin("run touch made")
    shown(page.get_by_role("button", name="Always"))


@pytest.mark.requirement("H3", "D8")
def test_a_question_of_the_model_is_answered_in_words(visit, serve):
    def model(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return (Say("So be it."), Finish())
        return (Call("ask_user", {"question": "Which colour?"}), Finish())

    server = serve(model=model)
    page = visit(server.url).open()
    say(page, "ask me")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    shown(run.get_by_text("Which colour?").first)
    run.get_by_label("Your answer").fill("red as a brick")
    keep_picture(page, "a-question")
    run.get_by_role("button", name="Answer").click()
    reaches(run, "completed")
    sent = server.behind.provider.requests[1].body["messages"][-1]
    assert "red as a brick" in str(sent["content"])


@pytest.mark.requirement("H3", "G7")
def test_sessions_are_found_by_what_was_said_in_them(visit, serve):
    server = serve()
    for fruit in ("apples", "pears"):
        server.ended(server.say(f"about-{fruit}", f"write {fruit}.txt with 2 lines"))
    page = visit(server.url).open()
    sessions = page.get_by_role("navigation", name="Sessions")
    shown(sessions.get_by_role("link"), 2)
    page.keyboard.press("/")
    page.keyboard.type("pears")
    shown(sessions.get_by_role("link"), 1)
    shown(sessions.locator("mark").first)
    keep_picture(page, "search")
    assert accessibility_problems(page) == []
    assert sessions.locator("mark").first.inner_text() == "pears"
    sessions.get_by_role("link").click()
    shown(last_run(page).get_by_text("write pears.txt with 2 lines").first)
    assert page.url.endswith("#/s/about-pears")


@pytest.mark.requirement("H3", "G7", "E11")
def test_a_search_goes_on_behind_its_first_page(visit, serve):
    server = serve()
    for number in range(65):
        server.ask("POST", "/v1/sessions", {"id": f"s{number}", "title": f"knot {number}"})
    page = visit(server.url).open()
    sessions = page.get_by_role("navigation", name="Sessions")
    page.keyboard.press("/")
    page.keyboard.type("knot")
    shown(sessions.locator("mark").first)
    links = sessions.get_by_role("link")

    def all_shown() -> bool:
        links.last.scroll_into_view_if_needed()
        return links.count() == 65

    until(all_shown, lambda: str(links.count()))
    shown(sessions.get_by_text("65 sessions found."))
    assert links.count() == 65


@pytest.mark.requirement("H3", "B9")
def test_what_is_kept_of_a_call_that_never_came_whole_can_be_read(visit, serve):
    def model(request):
        return (
            Call("write_file", '{"path":"notes.md","content":"# Notes\\nThe first li', 0, closed=False),
            CutOff("reset"),
        )

    more = "[turn]\nmax_calls = 2"
    server = serve(model=model, more=more)
    visitor = visit(server.url)
    page = visitor.open()
    say(page, "write notes")
    run = last_run(page)
    reaches(run, "partial")
    until(lambda: "draft" in run.inner_text().lower(), run.inner_text)
    (draft,) = server.get(f"/v1/runs/{run_id(run)}/drafts")["data"]
    assert draft["characters"] == 20
    kept = run.get_by_role("group", name="Draft")
    kept.get_by_text("Read", exact=True).click()
    shown(kept.get_by_text("The first li"))
    with page.expect_download() as download:
        kept.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "notes.md"
    assert download.value.path().read_text() == "# Notes\nThe first li"
    visitor.watch.forgive(r"status of 409")
    to_path = kept.get_by_role("button", name="Save to notes.md")
    to_path.click()
    shown(kept.get_by_text("Saved to notes.md"))
    assert (server.work / "notes.md").read_text() == "# Notes\nThe first li"
    to_path.click()
    shown(kept.get_by_text("notes.md already has this content"))
    (server.work / "notes.md").write_text("mine")
    to_path.click()
    shown(kept.get_by_text("with another content; it is left as it is"))
    assert (server.work / "notes.md").read_text() == "mine"
    keep_picture(page, "a-draft")
    page.set_viewport_size(PHONE)
    assert accessibility_problems(page) == []


@pytest.mark.requirement("H3")
def test_the_settings_in_effect_are_shown_with_where_they_come_from(visit, serve):
    server = serve(ASKING, TURNBUCKLE_TURN__MAX_CALLS="17")
    page = visit(server.url).open("#/settings")
    for key, source in {
        "turn.max_calls": "TURNBUCKLE_TURN__MAX_CALLS",
        "workspace": "turnbuckle.toml, line 1",
        "server.port": "command line",
        "server.keepalive": "default",
    }.items():
        row = (
            page.locator("main tr, main li, main dl > div")
            .filter(has=page.get_by_text(key, exact=True))
            .first
        )
        shown(row)
        assert source in row.inner_text(), row.inner_text()
    keep_picture(page, "settings")


@pytest.mark.requirement("H3", "F9")
def test_a_server_with_a_key_asks_for_it_and_keeps_it_out_of_every_address(visit, serve):
    server = serve(KEYED, key=KEY)
    visitor = visit(server.url)
    visitor.watch.forgive(REFUSED)
    addresses = []
    page = visitor.open()
    page.on("request", lambda request: addresses.append(request.url))
    key = page.get_by_label("API key")
    shown(key)
    keep_picture(page, "login")
    key.fill("not-the-key")
    page.get_by_role("button", name="Log in").click()
    until(
        lambda: "key" in page.get_by_role("alert").inner_text().lower(), page.get_by_role("dialog").inner_text
    )
    key.fill(KEY)
    page.get_by_role("button", name="Log in").click()
    gone(key)
    say(page, "list files")
    reaches(last_run(page), "completed")
    page.reload()
    reaches(last_run(page), "completed")
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Log out").click()
    shown(page.get_by_label("API key"))
    page.reload()
    shown(page.get_by_label("API key"))
    assert not [address for address in addresses if KEY in address]
    assert KEY not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")


@pytest.mark.requirement("H3", "G1")
def test_a_message_while_something_runs_waits_and_can_be_taken_back(visit, serve):
    server = serve(ASKING)
    page = visit(server.url).open()
    say(page, "run touch first")
    reaches(last_run(page), "waiting_for_approval")
    say(page, "list files")
    waiting = page.get_by_role("list", name="What waits for its turn")
    shown(waiting.get_by_text("list files"))
    keep_picture(page, "a-message-that-waits")
    waiting.get_by_role("button", name="Take back").click()
    gone(waiting)
    shown(last_run(page).get_by_text("it was withdrawn before its turn came").last)
    first = page.locator("article.run").first
    first.get_by_role("button", name="Allow").click()
    reaches(first, "completed")
    assert {run["status"] for run in server.get("/v1/runs")["data"]} == {"cancelled", "completed"}


@pytest.mark.requirement("H3", "G7")
def test_a_session_is_renamed_forked_and_deleted_from_its_menu(visit, serve):
    server = serve()
    page = visit(server.url).open()
    say(page, "list files")
    reaches(last_run(page), "completed")
    sessions = page.get_by_role("navigation", name="Sessions")
    page.locator("header").get_by_role("button", name="Session menu").click()
    page.get_by_role("menuitem", name=re.compile("Rename")).click()
    page.get_by_role("dialog").get_by_role("textbox").fill("My files")
    page.keyboard.press("Enter")
    shown(sessions.get_by_text("My files"))
    page.locator("header").get_by_role("button", name="Session menu").click()
    page.get_by_role("menuitem", name=re.compile("Fork")).click()
    shown(sessions.get_by_role("link"), 2)
    fork, first = server.get("/v1/sessions")["data"]
    assert (first["title"], page.url.rpartition("/")[2]) == ("My files", fork["id"])
    page.locator("header").get_by_role("button", name="Session menu").click()
    page.get_by_role("menuitem", name=re.compile("Delete")).click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Delete")).click()
    shown(sessions.get_by_role("link"), 1)
    assert [one["id"] for one in server.get("/v1/sessions")["data"]] == [first["id"]]
