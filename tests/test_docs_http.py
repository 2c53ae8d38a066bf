"""Every line that the HTTP reference shows does what the page says, sent to a real server by curl itself."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from pages.http_part import BODIES, FILES, STREAM, curl
from support.http.all_endpoints import DOCUMENT, operations
from support.processes.served_folder import served, until
from tidy import ROOT

SETTINGS = 'workspace = "work"\n[tools.approval]\nshell = "ask"\n'
PAGE = (ROOT / "docs/http.md").read_text("utf-8")


def test_every_endpoint_has_a_place_on_the_page_with_a_line_to_try():
    for method, path, told in operations():
        section = PAGE.partition(f"\n### {method.upper()} {path}\n")[2].partition("\n### ")[0]
        assert told["summary"] in section, path
        assert f"```sh\n{curl(method, path, told)}\n```" in section
        documented = re.findall(r"^- \*\*(\d+)\*\*", section, re.MULTILINE)
        assert documented == [status for status, answer in told["responses"].items() if "$ref" not in answer]


def test_every_request_with_a_body_shows_one():
    with_body = {told["operationId"] for _, _, told in operations() if "requestBody" in told}
    assert with_body == BODIES.keys() | FILES.keys()


def test_what_the_page_says_of_any_request_is_what_every_endpoint_may_answer():
    said = {"400", "401", "403", "421", "429", "431", "500", "503"}
    shared = set.intersection(
        *(set(told["responses"]) for _, _, told in operations() if told["security"] != [{}])
    )
    assert shared == said
    assert all(f" {status}" in PAGE.partition("<!-- made")[0] for status in said)
    assert set(DOCUMENT["components"]["responses"]) == {
        answer["$ref"].rpartition("/")[2]
        for _, _, told in operations()
        for answer in told["responses"].values()
        if "$ref" in answer
    }


def _status(line: str, folder: Path, names: dict[str, str]) -> int:
    quiet = f"{line} -s -o /dev/null -w '%{{http_code}}' --max-time 20 --noproxy '*'"
    ran = subprocess.run(
        ["bash", "-c", quiet],
        cwd=folder,
        env={**names, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout)


@pytest.mark.process
def test_every_line_of_the_page_works(tmp_path):
    with served(tmp_path, SETTINGS) as server:
        run = server.begin("write hello.txt with 300 lines and cut", session="work")
        server.ended(run)
        waiting = server.begin("run ls")
        until(lambda: server.get(f"/v1/runs/{waiting}/approvals")["data"])
        (approval,) = server.get(f"/v1/runs/{waiting}/approvals")["data"]
        response = server.ask(
            "POST", "/v1/responses", {"model": "agent", "input": "list files", "background": True}
        )
        names = {
            "AT": server.url,
            "RUN": run,
            "APPROVAL": approval["id"],
            "DRAFT": "d1",
            "SESSION": "work",
            "RESPONSE": response["id"],
            "CONVERSATION": server.ask("POST", "/v1/conversations", {})["id"],
            "MODEL": "agent",
            "FILE": "main.js",
            "PROCESS": "p0",
        }
        exported = subprocess.run(
            [
                "curl",
                "-s",
                "--noproxy",
                "*",
                f"{server.url}/v1/sessions/work/export",
                "-o",
                tmp_path / "work.jsonl",
            ],
            check=True,
        )
        assert exported.returncode == 0
        found = {}
        for method, path, told in sorted(operations(), key=lambda row: row[0] == "delete"):
            of = {**names, "RUN": waiting} if "approval}" in path else names
            found[f"{method} {path}"] = _status(curl(method, path, told), tmp_path, of)
            assert f"{found[f'{method} {path}']}" in told["responses"], found
        # The draft was finished, so it is none any more; nothing runs in the background; no rule was made; and
        # curl opens no WebSocket.
        assert {key: status for key, status in found.items() if status >= 400} == {
            "get /v1/responses": 426,
            "get /v1/runs/{run}/drafts/{draft}": 404,
            "post /v1/runs/{run}/drafts/{draft}/save": 404,
            "post /v1/processes/{process}/stop": 404,
            "delete /v1/rules/{rule}": 404,
        }


def test_streams_are_shown_as_they_come():
    for method, path, told in operations():
        streams = any(STREAM in answer.get("content", {}) for answer in told["responses"].values())
        assert ("-N" in shlex.split(curl(method, path, told))) == streams
