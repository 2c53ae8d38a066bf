"""A change in the console: seen as a diff before it is allowed and after, listed with its run, and undone."""

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import PHONE, gone, is_sideways, keep_picture, last_run, reaches, say, shown

from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process

WIDE = {"width": 1360, "height": 900}
LONG = "a line that is far too long for the window of a phone " * 4


def model(request):
    if any(message["role"] == "tool" for message in request.body["messages"]):
        return (Say("Done."), Finish())
    return (Call("write_file", {"path": "notes.md", "content": f"one\n{LONG}\n"}), Finish())


@pytest.mark.requirement("H9", "H10")
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_diff_is_seen_before_consent_and_after_and_the_file_is_undone(size, visit, serve):
    server = serve(model=model, tools='approval = { write_file = "ask" }')
    (server.work / "notes.md").write_text("one\ntwo\n")
    page = visit(server.url).open(viewport=size)
    say(page, "change the notes")
    run = last_run(page)
    reaches(run, "waiting_for_approval")
    about = run.locator(".approval .askedabout")
    shown(about.get_by_text("Task: change the notes"))
    shown(about.get_by_text('the rule "write_file" = "ask"'))
    shown(about.locator(".diff .line[data-kind=removed]", has_text="-two"))
    shown(about.locator(".diff .line[data-kind=added]", has_text="+a line"))
    shown(about.get_by_text('"write_file:notes.md" = "allow"'))
    assert not is_sideways(page)
    lines = about.locator(".diff")
    assert lines.evaluate(
        "one => one.scrollWidth <= one.clientWidth"
    )  # nothing of what is asked is out of sight
    name = "wide" if size is WIDE else "phone"
    keep_picture(page, f"diff-before-{name}")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert accessibility_problems(page) == []
    run.get_by_role("button", name="Allow").click()
    reaches(run, "completed")
    gone(run.get_by_role("button", name="Allow"))
    run.get_by_text("Changes: 1 file").click()
    shown(run.get_by_role("button", name="Undo this file"))  # also where no diff is open
    run.locator(".changes .change summary").click()
    shown(run.locator(".changes .diff .line[data-kind=added]", has_text="+a line"))
    opened = run.locator(".changes .change").element_handle()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # somebody comes back to the page
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert opened.evaluate("one => one.isConnected && one.open")
    keep_picture(page, f"diff-after-{name}")
    assert not is_sideways(page)
    assert accessibility_problems(page) == []
    run.get_by_role("button", name="Undo this file").click()
    gone(run.get_by_role("button", name="Undo this file"))
    shown(run.locator(".changes").get_by_text("undone"))
    assert (server.work / "notes.md").read_text() == "one\ntwo\n"
