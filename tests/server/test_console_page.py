"""The console's files over HTTP: who gets them, what they may do, and what the settings page is told."""

from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.console.assets import PAGE, load_assets
from turnbuckle.lab.script import Finish, Say

LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def visited(scenario: Any, folder: Path, **settings: Any) -> Any:
    return run_scenario(scenario, folder, lambda request: (Say("hello"), Finish()), **settings)


@pytest.mark.requirement("H3")
def test_every_file_of_the_console_is_served_as_it_is_and_known_again_by_its_tag(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        for name, asset in load_assets().items():
            path = "/" if name == PAGE else f"/console/{name}"
            reply = await server.get(path)
            assert (reply.status, reply.body) == (200, asset.body)
            assert reply.headers["content-type"] == asset.content_type
            assert reply.headers["cache-control"] == "no-cache"
            again = await server.get(path, if_none_match=f'"other", W/{reply.headers["etag"]}')
            assert (again.status, again.body) == (304, b"")
            other = await server.get(path, if_none_match='"other"')
            assert other.status == 200

    assert PAGE in load_assets()
    visited(scenario, tmp_path)


@pytest.mark.requirement("H3", "F9")
def test_the_page_may_load_only_from_here_and_stands_in_no_frame(tmp_path: Path):
    async def scenario(server: LiveServer) -> str:
        return (await server.get("/")).headers["content-security-policy"]

    rules = dict(rule.strip().split(" ", 1) for rule in visited(scenario, tmp_path).split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["style-src"] == "'self'"


@pytest.mark.requirement("H3", "F9")
def test_the_page_needs_no_key_but_all_that_it_shows_does(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        ann = server.owner("ann")
        assert (await server.get("/")).status == 200
        assert (await server.get("/console/main.js")).status == 200
        assert (await server.get("/v1/settings")).status == 401
        assert (await ann.get("/v1/settings")).status == 200

    visited(scenario, tmp_path)


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "path, headers, status",
    [
        ("/", LINK, 200),
        ("/?try=stall", {"sec-fetch-site": "none"}, 200),
        ("/?try=stall", LINK, 403),
        ("/", {**LINK, "sec-fetch-dest": "iframe"}, 403),
        ("/", {**LINK, "sec-fetch-mode": "no-cors"}, 403),
        ("/", {**LINK, "origin": "https://evil.example"}, 403),
        ("/", {**LINK, "host": "evil.example"}, 421),
        ("/console/main.js", LINK, 403),
        ("/v1/settings", LINK, 403),
        ("/healthz", LINK, 403),
    ],
)
def test_a_link_of_another_site_leads_to_the_page_and_to_nothing_else(tmp_path: Path, path, headers, status):
    async def scenario(server: LiveServer) -> int:
        return (await server.ask("GET", path, **headers)).status

    assert visited(scenario, tmp_path) == status


@pytest.mark.requirement("H3")
def test_a_file_that_the_console_does_not_have_is_told_so(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        for name in ("none.js", "index.html", "..%2Fassets.py", "__init__.py", "%2Fetc%2Fpasswd"):
            reply = await server.get(f"/console/{name}")
            assert (reply.status, reply.json["error"]["code"]) == (404, "unknown_url")

    visited(scenario, tmp_path)


@pytest.mark.requirement("H3")
def test_the_settings_in_effect_are_told_with_their_sources_and_without_secrets(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        return (await server.get("/v1/settings")).json

    told = visited(scenario, tmp_path, tools='approval = { shell = "ask" }', more="")
    values = {value["key"]: (value["value"], value["source"]) for value in told["values"]}
    assert values["tools.approval"][0] == '{"shell":"ask"}'
    assert values["tools.approval"][1].startswith("turnbuckle.toml, line ")
    assert values["server.host"] == ('"127.0.0.1"', "default")
    assert values["routes.0.api_key"][0] == "(hidden)"
    assert told["rehearsal"] is False
    assert (told["models"], told["relays"]) == (["agent"], ["lab"])
    assert told["file"] == str(tmp_path / "turnbuckle.toml")
