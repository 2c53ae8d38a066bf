"""The watch over pages and the judge of them find what they are there for."""

import pytest
from support.browser.accessibility import accessibility_problems
from support.processes.served_folder import until

pytestmark = pytest.mark.process


def test_the_watch_notes_errors_failed_requests_and_foreign_hosts(visit, serve):
    visitor = visit(serve().url)
    page = visitor.open()
    page.evaluate("console.error('said aloud'); setTimeout(() => { throw new Error('thrown') })")
    page.evaluate("fetch('/nothing/of/the/kind').then(() => null)")
    page.evaluate("new Image().src = 'http://localhost:9/picture.png'")
    wanted = ("said aloud", "thrown", "status of 404", "localhost:9/picture.png")
    until(lambda: all(any(word in problem for problem in visitor.watch.problems) for word in wanted))
    noted, visitor.watch.problems[:] = list(visitor.watch.problems), []
    assert [word for word in wanted if not any(word in problem for problem in noted)] == []


def test_the_judge_finds_a_nameless_picture_and_words_that_nobody_can_read(visit, serve):
    page = visit(serve().url).open()
    page.goto("about:blank")  # where nothing of the console is at work
    page.set_content(
        '<html lang="en"><title>x</title><link rel="icon" href="data:,"><main><h1>x</h1><img src="data:,"><svg role="img" aria-label="x">'
        '<g><rect width="200" height="40" fill="navy"></rect></g>'
        '<text x="20" y="20" fill="black">dark on dark</text><text x="20" y="36" fill="white">light on dark</text></svg></main>'
    )
    complaints = " ".join(accessibility_problems(page))
    assert "image-alt" in complaints
    assert "dark on dark" in complaints
    assert "light on dark" not in complaints
