"""A run of hundreds of calls in the console: it stays usable, and small."""

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import gone, is_sideways, keep_picture, last_run, reaches, say, shown
from support.processes.served_folder import until
from support.server.live_server import gate

from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process

WIDE = {"width": 1360, "height": 850}
PHONE = {"width": 390, "height": 780}
BATCH = 20


def _three_hundred(request):
    if request.number == 8:
        return (Say("Half of it is done."), Call("list_files", {"path": "."}), gate(1), Finish())
    if request.number > 15:
        return (Say("All of it is done."), Finish())
    return (*(Call("read_file", {"path": f"{request.number}-{one}.txt"}) for one in range(BATCH)), Finish())


@pytest.mark.requirement("H12", "H3")
def test_three_hundred_calls_are_a_few_lines_that_can_be_opened(visit, serve):
    server = serve(model=_three_hundred)
    for number in range(1, 16):
        for one in range(BATCH):
            (server.work / f"{number}-{one}.txt").write_text(f"words of {number}-{one}\n")
    page = visit(server.url).open(viewport=WIDE)
    say(page, "read all of them")
    run = last_run(page)
    shown(run.get_by_text("Half of it is done."))
    group = run.locator(".tool.group")
    shown(group.get_by_text("140 × read_file", exact=True))
    until(lambda: _top(page, ".timelinebox.sticks") >= 0, lambda: "the timeline is out of sight")
    keep_picture(page, "long-run-under-way")
    server.behind.open(1)
    reaches(run, "completed")
    shown(run.get_by_text("All of it is done."))
    shown(group, 2)
    gone(run.locator(".plot"))
    assert page.locator("article.run *").count() < 700
    group.first.locator("summary").first.click()
    shown(run.locator(".members .tool"), 100)
    group.first.get_by_role("button", name="Show 40 more of 140").click()
    shown(run.locator(".members .tool"), 140)
    run.locator(".members .tool summary").first.click()
    shown(run.get_by_text("words of 1-0").first)
    keep_picture(page, "long-run")
    assert accessibility_problems(page) == []
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    keep_picture(page, "phone-long-run")
    page.reload()
    reaches(last_run(page), "completed")
    shown(last_run(page).get_by_text("140 × read_file", exact=True))
    assert page.locator("article.run *").count() < 700


def _top(page, selector: str) -> float:
    return page.evaluate("(one) => document.querySelector(one)?.getBoundingClientRect().top ?? -1", selector)
