"""The console where a run came to nothing: what a person can do next."""

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import gone, last_run, reaches, run_id, say, shown, tells_once
from support.processes.served_folder import until

from turnbuckle.lab.script import Finish, Refuse, Say

pytestmark = pytest.mark.process

WAITING = {"width": 1360, "height": 850}


def _refuses_once(request):
    return (Say("Here it is."), Finish()) if request.number > 1 else (Refuse("No."), Finish())


@pytest.mark.requirement("H3")
def test_a_failed_run_says_no_lie_about_breaks_and_is_retried_once_however_often_one_clicks(visit, serve):
    server = serve(model=_refuses_once)
    page = visit(server.url).open()
    say(page, "tell me")
    reaches(last_run(page), "failed")
    failed = run_id(last_run(page))
    shown(last_run(page).get_by_role("button", name="Retry"))
    assert "nothing broke" not in last_run(page).inner_text()
    tells_once(last_run(page), "declined")
    assert accessibility_problems(page) == []
    last_run(page).get_by_role("button", name="Retry").dblclick()
    shown(page.get_by_text("Here it is."))
    reaches(last_run(page), "completed")
    gone(page.locator(f"[data-run={failed}]"))
    gone(page.get_by_role("button", name="Retry"))
    assert len(server.get("/v1/runs")["data"]) == 2


@pytest.mark.requirement("H3")
def test_a_failed_run_is_continued_with_its_conversation_kept(visit, serve):
    server = serve(model=_refuses_once)
    page = visit(server.url).open()
    say(page, "tell me")
    reaches(last_run(page), "failed")
    page.get_by_role("button", name="Continue").click()
    shown(page.get_by_text("Here it is."))
    shown(page.locator("article.run"), 2)
    gone(page.get_by_role("button", name="Continue"))  # something was said since
    assert [line["title"] for line in server.get("/v1/runs")["data"]] == ["Continue.", "tell me"]


@pytest.mark.requirement("H3")
def test_the_page_of_a_failed_run_offers_to_try_again_until_something_was_said_behind_it(visit, serve):
    server = serve(model=_refuses_once)
    page = visit(server.url).open()
    say(page, "tell me")
    reaches(last_run(page), "failed")
    failed = run_id(last_run(page))
    page.goto(f"{server.url}#/r/{failed}")
    shown(page.get_by_role("button", name="Retry"))
    page.get_by_role("button", name="Continue").click()
    shown(page.get_by_text("Here it is."))
    shown(page.locator("article.run"), 2)
    page.goto(f"{server.url}#/r/{failed}")
    shown(page.get_by_role("link", name="Open its session"))
    reaches(last_run(page), "failed")
    gone(page.get_by_role("button", name="Continue"))
    assert [line["title"] for line in server.get("/v1/runs")["data"]] == ["Continue.", "tell me"]


@pytest.mark.requirement("H3")
def test_the_page_of_a_failed_run_retries_it_in_its_session(visit, serve):
    server = serve(model=_refuses_once)
    page = visit(server.url).open()
    say(page, "tell me")
    reaches(last_run(page), "failed")
    page.goto(f"{server.url}#/r/{run_id(last_run(page))}")
    page.get_by_role("button", name="Retry").dblclick()
    shown(page.get_by_text("Here it is."))
    shown(page.locator("article.run"), 1)
    assert len(server.get("/v1/runs")["data"]) == 2


@pytest.mark.requirement("H3")
def test_the_pages_stay_inside_of_the_list_when_something_waits(visit, serve):
    server = serve('workspace = "work"\n[tools.approval]\nshell = "ask"\n')
    page = visit(server.url).open(viewport=WAITING)
    say(page, "run touch made")
    reaches(last_run(page), "waiting_for_approval")
    pages = page.locator(".pages")
    shown(pages.locator(".badge"))
    assert pages.evaluate("one => one.scrollWidth <= one.clientWidth")


OTHER = """
[[routes]]
name = "other 🚀"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
"""


def _refuses_on_the_first_route(request):
    return (Say("Here it is."), Finish()) if request.body["model"] == "m2" else (Refuse("No."), Finish())


@pytest.mark.requirement("H3")
def test_a_failed_run_is_retried_on_another_route_which_the_next_message_takes_too(visit, serve):
    server = serve(model=_refuses_on_the_first_route, more=OTHER)
    page = visit(server.url).open()
    say(page, "tell me")
    reaches(last_run(page), "failed")
    last_run(page).get_by_role("button", name="Retry on…").click()
    choices = page.get_by_role("menuitem")
    shown(choices, 1)
    assert accessibility_problems(page) == []
    choices.filter(has_text="other 🚀").click()
    shown(page.get_by_text("Here it is."))
    reaches(last_run(page), "completed")
    say(page, "more")
    shown(page.locator("article.run"), 2)
    reaches(last_run(page), "completed")
    shown(page.get_by_text("This session: 3 runs, "))

    def listed(field):
        return [line[field] for line in server.get("/v1/runs")["data"]]

    until(lambda: listed("status") == ["completed", "completed", "failed"], lambda: listed("status"))
    assert listed("route") == ["other 🚀", "other 🚀", "lab"]
