"""The overview page and the list of runs: health, waste and search."""

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import gone, is_sideways, keep_picture, last_run, reaches, say, shown
from support.processes.served_folder import until
from support.server.live_server import gate

from turnbuckle.lab.script import Finish, Say

pytestmark = pytest.mark.process

WIDE = {"width": 1360, "height": 850}
PHONE = {"width": 390, "height": 780}


@pytest.mark.requirement("H11", "H3")
def test_a_break_is_seen_at_a_glance_and_its_run_is_found(visit, serve):
    server = serve()
    page = visit(server.url).open(viewport=WIDE)
    say(page, "write report.md with 30 lines and cut")
    reaches(last_run(page), "completed")
    page.get_by_role("link", name="Overview").click()
    waste = page.get_by_role("region", name="Waste by day and cause")
    shown(waste.get_by_role("cell", name="reset"), 2)  # on its day, and over all time
    shown(waste.get_by_role("cell", name="All time"), 1)
    shown(page.get_by_role("region", name="Queue").get_by_text("The queue is empty."))
    shown(page.get_by_role("region", name="Routes").get_by_role("cell", name="rehearsal"))
    shown(page.get_by_role("region", name="The last 7 days").get_by_role("row"), 2)
    shown(page.get_by_role("region", name="Servers").get_by_role("row", name="this server"))
    keep_picture(page, "overview")
    assert accessibility_problems(page) == []
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    for table in page.locator("div.table").all():  # every value is in sight
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    shown(waste.get_by_role("cell", name="none known"), 2)
    assert accessibility_problems(page) == []
    keep_picture(page, "phone-overview")
    page.set_viewport_size(WIDE)
    page.get_by_role("link", name="Runs", exact=True).click()
    row = page.get_by_role("list", name="Runs").get_by_role("listitem")
    shown(row, 1)
    page.get_by_role("searchbox", name="Search runs").fill("nothing such")
    gone(row)
    page.get_by_role("searchbox", name="Search runs").fill("REPORT")
    shown(row, 1)
    keep_picture(page, "runs")
    assert accessibility_problems(page) == []


def _waits(request):
    return (Say("one "), gate(request.number), Say("two"), Finish())


@pytest.mark.requirement("H11")
def test_the_overview_shows_the_queue_as_it_is_and_a_persons_stop_is_no_failure(visit, serve):
    server = serve(model=_waits)
    session = {"session": "s"}
    first = server.begin("count the files", **session)
    server.behind.asked(1)
    server.begin("then sort them", **session)
    page = visit(server.url).open("#/overview", viewport=WIDE)
    queue = page.get_by_role("region", name="Queue")
    row = queue.get_by_role("row").nth(1)
    shown(row.get_by_role("link", name="then sort them"))
    shown(row.get_by_role("link", name="the run under way"))
    keep_picture(page, "overview-queue")
    assert accessibility_problems(page) == []
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    server.ask("POST", f"/v1/runs/{first}/interrupt")
    shown(queue.get_by_text("The queue is empty."))
    cells = page.get_by_role("region", name="Routes").get_by_role("row").nth(1).get_by_role("cell")
    until(lambda: cells.all_inner_texts()[2:8] == ["2", "0", "0", "0", "0", "1"], cells.all_inner_texts)


@pytest.mark.requirement("H11")
def test_runs_are_searched_by_the_server_also_behind_the_page_that_is_shown(visit, serve):
    server = serve()
    server.ended(server.begin("find the needle"))
    for number in range(60):
        last = server.begin(f"hay {number}")
    server.ended(last)
    page = visit(server.url).open("#/runs", viewport=WIDE)
    rows = page.get_by_role("list", name="Runs").get_by_role("listitem")
    shown(rows, 50)
    page.get_by_role("searchbox", name="Search runs").fill("needle")
    shown(rows, 1)
    shown(rows.get_by_text("rehearsal"))
    assert "find the needle" in rows.inner_text()
    page.get_by_role("combobox", name="Show").select_option("failed")
    shown(page.get_by_text("No runs match."))
