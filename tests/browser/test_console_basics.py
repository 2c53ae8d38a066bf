"""The console's basics: colours, copying, keys, files, export, notifications, clocks, and Markdown in forks."""

import re

import pytest
from support.browser.accessibility import accessibility_problems
from support.browser.chromium import gone, is_sideways, keep_picture, last_run, reaches, run_id, say, shown
from support.processes.served_folder import until
from support.server.live_server import gate

from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process

WIDE = {"width": 1360, "height": 850}
PHONE = {"width": 390, "height": 780}
ANSWER = """## A table and code

| a | b |
|---|--:|
| 1 | 2 |

```python
def hello(name: str) -> str:
    # a greeting
    return f"Hello, {name}!" * 2
```

1. one <img src=x onerror="document.title='owned'">
2. [two](javascript:alert(1)), [three](https://x.example)
"""


@pytest.mark.requirement("H3")
def test_an_answer_has_colours_can_be_copied_exported_and_forked_as_markdown(visit, serve):
    server = serve(model=lambda request: (Say(ANSWER, pieces=40), Finish()))
    page = visit(server.url).open(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"])
    say(page, "show me")
    run = last_run(page)
    reaches(run, "completed")
    shown(run.locator(".code .c-keyword").first)
    assert (
        run.locator(".code code").text_content() == ANSWER.split("```python\n")[1].split("```", maxsplit=1)[0]
    )
    assert run.locator(".md img, .md script, .md a[href^=javascript]").count() == 0
    run.get_by_role("button", name="Copy the code").click()
    until(lambda: _copied(page).startswith("def hello"), lambda: _copied(page))
    run.get_by_role("button", name="Copy the answer").click()
    until(lambda: _copied(page).strip() == ANSWER.strip(), lambda: _copied(page))
    keep_picture(page, "answer-with-colours")
    assert accessibility_problems(page) == []
    page.locator("#top").get_by_role("button", name="Session menu").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export as Markdown").click()
    text = download.value.path().read_text()
    assert "## You" in text
    assert "show me" in text
    assert ANSWER.strip() in text
    page.locator("#top").get_by_role("button", name="Session menu").click()
    page.get_by_role("menuitem", name="Fork").click()
    shown(page.locator(".shared .md table"))
    shown(page.locator(".shared .code .c-keyword").first)
    page.set_viewport_size(PHONE)
    assert not is_sideways(page)
    keep_picture(page, "phone-answer-with-colours")


def _copied(page) -> str:
    """What lies on the clipboard by now: a page is not told when it is written."""
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.requirement("H3")
def test_the_question_mark_shows_the_keys_and_is_a_sign_like_others_in_the_box(visit, serve):
    server = serve(model=lambda request: (Say("Yes."), Finish()))
    page = visit(server.url).open(viewport=WIDE)
    page.get_by_role("textbox", name="Message", exact=True).press("?")
    assert page.get_by_role("textbox", name="Message", exact=True).input_value() == "?"
    page.get_by_role("textbox", name="Message", exact=True).fill("")
    page.locator("#main").focus()
    page.keyboard.press("?")
    shown(page.get_by_role("dialog", name="Keys"))
    keep_picture(page, "keys")
    assert accessibility_problems(page) == []
    page.keyboard.press("Escape")
    gone(page.get_by_role("dialog", name="Keys"))


_GIVE = """({how, name, type, base64}) => {
    const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name, {type}));
    const set = {bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data};
    const box = document.querySelector("form.composer textarea");
    if (how !== "paste") box.dispatchEvent(new DragEvent("dragover", set));
    if (how === "over") return;
    box.dispatchEvent(how === "drop" ? new DragEvent("drop", set) : new ClipboardEvent("paste", set));
}"""
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_TEXT = "b3V0IG9mIGEgZmlsZQ=="


def _outline(page) -> str:
    return str(page.locator("form.composer").evaluate("one => getComputedStyle(one).outlineStyle"))


@pytest.mark.requirement("H3")
def test_files_are_attached_by_paste_and_drop_and_reach_the_model(visit, serve):
    server = serve(model=lambda request: (Say("I see them."), Finish()))
    page = visit(server.url).open(viewport=WIDE)
    shown(page.get_by_role("textbox", name="Message", exact=True))
    page.evaluate(_GIVE, {"how": "paste", "name": "dot.png", "type": "image/png", "base64": _PNG})
    page.evaluate(_GIVE, {"how": "drop", "name": "notes.txt", "type": "text/plain", "base64": _TEXT})
    attached = page.get_by_role("list", name="Attached").get_by_role("listitem")
    shown(attached, 2)
    page.evaluate(_GIVE, {"how": "over", "name": "x.txt", "type": "text/plain", "base64": _TEXT})
    until(lambda: _outline(page) == "dashed", lambda: _outline(page))  # also while the box has the focus
    page.evaluate(_GIVE, {"how": "drop", "name": "a.zip", "type": "application/zip", "base64": "UEsAAP8="})
    until(lambda: _outline(page) != "dashed", lambda: _outline(page))
    page.evaluate(_GIVE, {"how": "paste", "name": "a.zip", "type": "application/zip", "base64": "UEsAAP8="})
    shown(page.get_by_text("a.zip cannot be attached"))
    shown(attached, 2)
    keep_picture(page, "attached")
    assert accessibility_problems(page) == []
    say(page, "what is this?")
    reaches(last_run(page), "completed")
    gone(page.get_by_role("list", name="Attached"))
    content = server.behind.provider.requests[-1].body["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text"]
    assert content[1]["image_url"]["url"] == f"data:image/png;base64,{_PNG}"
    assert "notes.txt:" in content[2]["text"]
    assert "out of a file" in content[2]["text"]
    shown(last_run(page).get_by_text(re.compile("^Picture:")))


@pytest.mark.requirement("H3")
def test_what_waits_marks_the_page_and_is_notified_only_to_those_who_want_it(visit, serve):
    def model(request):
        if brings_results(request):
            return (Say("Done."), Finish())
        return (Call("shell", {"command": "date"}), Finish())

    server = serve(model=model, tools='approval = { shell = "ask" }')
    page = visit(server.url).open(viewport=WIDE, permissions=["notifications"])
    page.evaluate(
        """() => {
            window.told = [];
            window.Notification = class extends EventTarget {
                static permission = "granted";
                static requestPermission = async () => "granted";
                constructor(title, {body}) { super(); window.told.push(`${title}: ${body}`); }
            };
            Object.defineProperty(document, "hidden", {get: () => Boolean(window.away)});
        }"""
    )
    plain = page.locator("link[rel=icon]").get_attribute("href")
    say(page, "run it")
    reaches(last_run(page), "waiting_for_approval")
    until(lambda: page.title().startswith("(1) "), page.title)
    assert page.locator("link[rel=icon]").get_attribute("href") != plain
    assert page.evaluate("told") == []
    last_run(page).get_by_role("button", name="Allow").first.click()
    reaches(last_run(page), "completed")
    until(lambda: not page.title().startswith("("), page.title)
    assert page.locator("link[rel=icon]").get_attribute("href") == plain
    page.get_by_label("Notify me when it waits").check()
    page.evaluate("window.away = true")
    page.get_by_role("textbox", name="Message", exact=True).fill("again")
    page.get_by_role("textbox", name="Message", exact=True).press("Enter")
    until(lambda: len(page.evaluate("told")) == 1, page.title)
    assert page.evaluate("told")[0].startswith("Turnbuckle waits for you: ")


@pytest.mark.requirement("H3")
def test_the_clock_of_a_run_that_is_opened_late_is_the_servers(visit, serve):
    server = serve(model=lambda request: (Say("one "), gate(1), Finish()))
    visitor = visit(server.url)
    page = visitor.open(viewport=WIDE)
    say(page, "say it")
    shown(last_run(page).get_by_text("one"))
    late = visitor.open("#/", viewport=WIDE)
    late.add_init_script("const real = Date.now; Date.now = () => real() + 3_600_000;")
    late.goto(page.url)
    late.reload()
    shown(last_run(late).get_by_text("one"))
    elapsed = last_run(late).locator(".elapsed")
    # An hour is what the page's own clock would say.
    minutes_at_most = re.compile(r"[\d.]+ m?s|\d min( \d+ s)?")
    until(lambda: minutes_at_most.fullmatch(elapsed.text_content() or ""), elapsed.text_content)
    assert minutes_at_most.fullmatch(elapsed.text_content() or "")
    server.behind.open(1)
    reaches(last_run(late), "completed")


@pytest.mark.requirement("E4")
def test_a_page_of_somebody_else_that_follows_a_run_ends_with_it(visit, serve):
    """By nothing but the browser's own EventSource, which comes back whenever a stream ends."""
    server = serve(model=lambda _: (Say("Here it is."), Finish()))
    page = visit(server.url).open()
    say(page, "tell me")
    reaches(last_run(page), "completed")
    asked: list[str] = []
    page.on("response", lambda response: asked.append(f"{response.status} {response.url}"))
    events = f"/v1/runs/{run_id(last_run(page))}/events"
    state = page.evaluate(
        """(path) => new Promise((over) => {
            const source = new EventSource(path);
            let opened = 0;
            source.onopen = () => (opened += 1) > 1 && over(source.readyState);
            source.onerror = () => source.readyState === EventSource.CLOSED && over(source.readyState);
        })""",
        events,
    )
    assert state == 2  # closed
    assert [told.partition(" ")[0] for told in asked if told.endswith(events)] == ["200", "204"]
