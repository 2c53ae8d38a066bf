"""The overview page and the list of runs: health, waste and search."""

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import gone, is_sideways, keep_picture, last_run, reaches, say, shown

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
    shown(waste.get_by_role("cell", name="reset"))
    shown(page.get_by_role("region", name="Routes").get_by_role("cell", name="rehearsal"))
    shown(page.get_by_role("region", name="The last 7 days").get_by_role("row"), 2)
    shown(page.get_by_role("region", name="Servers").get_by_role("row", name="this server"))
    keep_picture(page, "overview")
    assert accessibility_problems(page) == []
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
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
