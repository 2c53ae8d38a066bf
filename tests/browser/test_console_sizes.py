"""The console with a very long run and a very long session: what it builds and asks for is bounded."""

import pytest
from support.browser.chromium import last_run, reaches, shown
from support.browser.large_console import fake_run, fake_session

pytestmark = pytest.mark.process


@pytest.mark.requirement("H12")
def test_a_run_of_many_events_is_asked_for_once_and_few_elements_are_made_of_it(visit, serve):
    page = visit(serve().url).open()
    asked = fake_run(page, 20_000)
    page.goto(f"{page.url.split('#')[0]}#/r/big")
    reaches(last_run(page), "completed")
    assert len([url for url in asked if "/events" in url]) == 1
    assert len(asked) <= 6
    # 200 calls of 20,000 events, with the paragraphs between them
    assert page.locator("article.run *").count() < 3_000
    # Words that are not in sight are on the page, and not laid out.
    words = page.locator("article.run .md > p").last
    assert words.evaluate("(one) => getComputedStyle(one).contentVisibility") == "auto"


@pytest.mark.requirement("H12")
def test_of_a_session_of_a_thousand_runs_only_what_is_in_sight_is_read(visit, serve):
    page = visit(serve().url).open()
    asked = fake_session(page, 1_000)
    page.goto(f"{page.url.split('#')[0]}#/s/many")
    shown(page.locator("article.run[data-run=run-999][data-status=completed]"))
    assert page.locator("article.run").count() <= 60
    assert len([url for url in asked if "/events" in url]) <= 25
    assert len([url for url in asked if "/messages" in url]) <= 4
    assert page.locator("#main *").count() < 6_000
