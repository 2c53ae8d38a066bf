"""The console with a run under way: a turn, a stall that heals, stop, reload, two windows, a server that dies."""

import re

import pytest
from support.browser.chromium import gone, keep_picture, last_run, reaches, run_id, say, shown, tells_once
from support.processes.served_folder import until
from support.server.live_server import gate
from support.server.narrow_model import NOTES, NarrowModel, long_turn

from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Finish, Say, Stall

pytestmark = pytest.mark.process

FIRST, SECOND = "The first half of the answer, ", "and the second half of it."
AWAY = r"ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_SOCKET_NOT_CONNECTED"


def _in_two_halves(request):
    return (Say(FIRST, pieces=6), gate(1), Say(SECOND, pieces=6), Finish())


@pytest.mark.requirement("H3")
def test_a_task_is_answered_and_every_step_of_it_is_on_the_timeline(visit, serve):
    server = serve()
    page = visit(server.url).open()
    say(page, "write hello.txt with 3 lines")
    run = last_run(page)
    reaches(run, "completed")
    assert re.search(r"#/s/[\w-]+$", page.url)
    for paragraph in server.run(run_id(run))["output"].split("\n\n"):
        tells_once(run, paragraph)
    timeline = run.locator(".timelinebox")
    shown(timeline.get_by_text("nothing broke"))
    gone(timeline.locator(".plot"))  # where nothing broke it folds
    timeline.locator("summary").first.click()
    shown(timeline.locator("[data-kind=tool]").first)
    drawn = run.locator(".timeline [data-kind]")

    def kinds():  # of one moment: it is drawn again while it unfolds
        return set(drawn.evaluate_all("all => all.map(one => one.dataset.kind)"))

    until(lambda: {"model", "text", "arguments", "tool"} <= kinds(), kinds)
    assert not kinds() & {"stall", "recovery"}
    assert len((server.work / "hello.txt").read_text().splitlines()) == 3
    keep_picture(page, "a-turn")


@pytest.mark.realtime
@pytest.mark.requirement("H3", "B4")
def test_a_stall_inside_a_file_is_seen_while_it_lasts_and_so_is_its_recovery(visit, serve):
    server = serve()
    page = visit(server.url).open()
    say(page, "write a.txt with 50 lines and stall")
    run = last_run(page)
    shown(run.locator(".timeline [data-kind=stall], .timeline [data-kind=wait]").first)
    keep_picture(page, "a-stall-while-it-lasts")
    reaches(run, "completed")
    shown(run.locator(".timeline [data-kind=stall]").first)
    shown(run.locator(".timeline [data-kind=recovery]").first)
    run.locator(".stepbox summary").click()
    shown(run.locator("ol.steps li[data-kind=recovery]").first)
    steps = run.locator("ol.steps li[data-kind=recovery]").all_text_contents()
    assert any("stall" in step for step in steps)
    keep_picture(page, "a-stall-healed")
    assert len((server.work / "a.txt").read_text().splitlines()) == 50


@pytest.mark.realtime
@pytest.mark.requirement("H3", "B3")
def test_a_real_silence_of_a_provider_in_text_is_a_stall_with_a_clean_seam(visit, serve):
    def model(request):
        if request.number == 1:
            return (Say(FIRST, pieces=6), Stall("forever"))
        return (Say(SECOND, pieces=6), Finish())

    server = serve(model=model, gap=2)
    page = visit(server.url).open()
    say(page, "say it")
    run = last_run(page)
    reaches(run, "completed")
    tells_once(run, FIRST + SECOND)
    shown(run.locator(".timeline [data-kind=stall]").first)
    shown(run.locator(".timeline [data-kind=recovery]").first)
    keep_picture(page, "a-stall-in-text")
    assert server.run(run_id(run))["output"] == FIRST + SECOND


@pytest.mark.requirement("H3", "G2")
def test_stop_ends_a_turn_and_shows_its_receipt(visit, serve):
    server = serve(model=_in_two_halves)
    page = visit(server.url).open()
    say(page, "say it")
    run = last_run(page)
    shown(run.get_by_text(FIRST.strip()))
    page.get_by_role("button", name="Stop").first.click()
    reaches(run, "cancelled")
    receipt = run.get_by_role("group", name="What was stopped")
    shown(receipt)
    told = receipt.get_by_role("listitem").all_inner_texts()
    assert re.match(r"Stopped within .+\.$", told[0])
    assert told[1:] == [
        "The conversation is kept.",
        f"The model call on lab was cut; {len(FIRST)} characters had arrived.",
    ]
    tells_once(run, FIRST)
    gone(page.get_by_role("button", name="Stop").first)
    keep_picture(page, "stopped")
    assert server.run(run_id(run))["output"] == FIRST


@pytest.mark.requirement("H3", "E4")
def test_a_reload_in_mid_stream_loses_nothing_and_shows_nothing_twice(visit, serve):
    server = serve(model=_in_two_halves)
    page = visit(server.url).open()
    say(page, "say it")
    shown(last_run(page).get_by_text(FIRST.strip()))
    before = page.url
    page.reload()
    run = last_run(page)
    shown(run.get_by_text(FIRST.strip()))
    assert page.url == before
    reaches(run, "running")
    server.behind.open(1)
    reaches(run, "completed")
    tells_once(run, FIRST + SECOND)
    assert server.run(run_id(run))["output"] == FIRST + SECOND
    assert len(page.locator("article.run").all()) == 1
    assert len(server.behind.provider.requests) == 1


@pytest.mark.requirement("H3", "E4")
def test_two_windows_see_the_same_run_and_what_one_begins_the_other_shows(visit, serve):
    server = serve(model=_in_two_halves)
    visitor = visit(server.url)
    one = visitor.open()
    say(one, "say it")
    shown(last_run(one).get_by_text(FIRST.strip()))
    other = visitor.open("#" + one.url.split("#")[1])
    shown(last_run(other).get_by_text(FIRST.strip()))
    server.behind.open(1)
    for page in (one, other):
        reaches(last_run(page), "completed")
        tells_once(last_run(page), FIRST + SECOND)
    say(other, "say it again")
    shown(one.locator("article.run"), 2)
    reaches(last_run(one), "completed")
    assert run_id(last_run(one)) == run_id(last_run(other))


@pytest.mark.realtime
@pytest.mark.requirement("H3", "E2", "G5")
def test_a_page_goes_on_by_itself_when_the_server_was_killed_and_started_again(visit, serve):
    def model(request):
        if request.number == 1:
            return (Say(FIRST, pieces=6), gate(1), Finish())
        return (Say(SECOND, pieces=6), gate(2), Finish())

    server = serve(model=model)
    visitor = visit(server.url)
    visitor.watch.forgive(AWAY)
    page = visitor.open()
    say(page, "say it")
    run = last_run(page)
    shown(run.get_by_text(FIRST.strip()))
    server.kill()
    shown(page.locator("[data-connection=lost]"))
    keep_picture(page, "connection-lost")
    server.start()
    shown(page.locator("[data-connection=open]"))
    shown(run.get_by_text(SECOND))
    server.behind.open(2)
    reaches(run, "completed")
    tells_once(run, FIRST + SECOND)
    assert server.run(run_id(run))["output"] == FIRST + SECOND
    keep_picture(page, "after-a-restart")


@pytest.mark.realtime
@pytest.mark.requirement("H3", "F6")
def test_a_message_sent_while_the_server_is_away_is_said_once_when_it_is_back(visit, serve):
    server = serve()
    visitor = visit(server.url)
    visitor.watch.forgive(AWAY)
    page = visitor.open()
    say(page, "list files")
    reaches(last_run(page), "completed")
    server.kill()
    say(page, "write once.txt with 2 lines")
    shown(page.locator("[data-connection=lost]"))
    server.start()
    shown(page.locator("article.run"), 2)
    reaches(last_run(page), "completed")
    assert [run["title"] for run in server.get("/v1/runs")["data"]] == [
        "write once.txt with 2 lines",
        "list files",
    ]
    assert len((server.work / "once.txt").read_text().splitlines()) == 2


@pytest.mark.requirement("H3")
def test_the_link_to_the_ready_made_task_begins_it_once_whatever_is_reloaded(visit, serve):
    server = serve()
    page = visit(server.url).open("?try=stall")
    shown(last_run(page))
    assert re.search(r"#/s/[\w-]+$", page.url)
    page.reload()
    shown(last_run(page))
    assert [run["title"] for run in server.get("/v1/runs")["data"]] == [
        "write notes.md with 600 lines slowly and stall"
    ]


@pytest.mark.requirement("H3", "C8")
def test_a_run_with_tools_that_broke_on_the_way_tells_what_was_wasted_and_why(visit, serve):
    def model(request):
        if brings_results(request):
            return (Say("Done."), Finish())
        return (
            (Say("Half of it"), Stall("forever"))
            if request.number == 1
            else (Say(" and the rest."), Finish())
        )

    server = serve(model=model, gap=2)
    page = visit(server.url).open()
    say(page, "say it")
    run = last_run(page)
    reaches(run, "completed")
    ledger = server.get(f"/v1/runs/{run_id(run)}/ledger")
    assert ledger["entries"]
    shown(run.get_by_text(re.compile("wasted", re.I)).first)
    assert ledger["entries"][0]["cause"].split()[0] in run.inner_text()


@pytest.mark.requirement("H3", "I5")
def test_a_history_that_was_made_smaller_is_one_quiet_line_with_its_summary(visit, serve):
    server = serve(model=NarrowModel(), tools="enable = []")
    for turn in range(6):
        server.ended(server.say("long", long_turn(turn)))
    page = visit(server.url).open("#/s/long")
    line = page.get_by_text(re.compile(r"^compacted [\d,]+ → [\d,]+ tokens, \d+ messages summarised")).first
    shown(line)
    summary = page.get_by_text(NOTES).first
    gone(summary)
    page.get_by_text("Show the summary").first.click()
    shown(summary)
    keep_picture(page, "a-compaction")
    assert NOTES in summary.inner_text()
