"""The rules of consent: which calls may start, wait for a person, or may not start."""

import itertools

import pytest

from turnbuckle.turn.consent import ConsentRule, fitting, rule_for, written

STRICTEST_LAST = ("allow", "ask", "deny")


def of_command(approval, command):
    return rule_for(written(approval), "shell", {"command": command}, "command", is_command=True)


def of_path(approval, path, tool="write_file"):
    return rule_for(written(approval), tool, {"path": path}, "path")


def of_url(approval, url):
    return rule_for(written(approval), "fetch_url", {"url": url}, "url")


def test_without_any_rule_a_call_may_start():
    assert of_command({}, "rm -rf .") == "allow"
    assert rule_for((), "anything", {}, "") == "allow"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("rule", STRICTEST_LAST)
def test_a_rule_of_a_tool_holds_for_all_its_calls_and_for_no_other_tool(rule):
    assert of_command({"shell": rule}, "anything at all") == rule
    assert of_path({"shell": rule}, "a.txt") == "allow"
    assert of_path({"*": rule}, "a.txt") == rule


@pytest.mark.requirement("D8", "M1")
@pytest.mark.parametrize(
    "approval, rule",
    [
        ({}, None),
        ({"mcp__notes__*": "allow"}, "allow"),
        ({"mcp__*": "allow"}, "allow"),
        ({"mcp__other__*": "allow"}, None),
        ({"mcp__notes__echo": "allow", "mcp__*": "deny"}, "allow"),
        ({"mcp__notes__echo": "deny", "mcp__notes__*": "allow"}, "deny"),
        ({"mcp__notes__*": "deny", "mcp__*": "allow", "*": "allow"}, "deny"),
        ({"*": "allow"}, "allow"),
        ({"mcp__notes": "allow"}, None),
    ],
)
def test_a_star_in_a_name_stands_for_all_tools_of_a_server_and_the_narrower_name_decides(approval, rule):
    deciding = fitting(written(approval), "mcp__notes__echo", {}, "")
    assert (deciding and deciding.rule) == rule


@pytest.mark.requirement("D8")
def test_keys_are_read_as_a_tool_and_a_pattern():
    rules = written(
        {"shell": "ask", " shell : git log* ": "allow", "fetch_url:https://a/*": "deny", "*": "deny"}
    )
    assert rules == (
        ConsentRule("shell", "ask"),
        ConsentRule("shell", "allow", "git log*"),
        ConsentRule("fetch_url", "deny", "https://a/*"),
        ConsentRule("*", "deny"),
    )


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "approval, command, rule",
    [
        ({"shell": "ask", "shell:git log*": "allow"}, "git log main", "allow"),
        ({"shell": "ask", "shell:git log*": "allow"}, "git log -3", "ask"),
        ({"shell": "ask", "shell:git log -3 *": "allow"}, "git log -3 main", "allow"),
        ({"shell": "ask", "shell:git log*": "allow"}, "git  log", "allow"),
        ({"shell": "ask", "shell:git log*": "allow"}, "  git log", "allow"),
        ({"shell": "ask", "shell:git log*": "allow"}, "sudo git log", "ask"),
        ({"shell": "ask", "shell:git *": "allow", "shell:git push*": "deny"}, "git push", "deny"),
        ({"shell": "ask", "shell:git *": "allow", "shell:git push*": "deny"}, "git pull", "allow"),
        ({"shell": "deny", "*": "allow"}, "ls", "deny"),
        ({"shell": "allow", "*": "deny"}, "ls", "allow"),
        ({"shell": "allow", "*:ls*": "deny"}, "ls", "allow"),
        ({"shell:*": "ask", "shell": "allow"}, "ls", "ask"),
        ({"shell:*": "allow", "shell": "ask"}, "ls", "allow"),
        ({"shell:*": "allow", "shell": "ask"}, "ls; ls", "ask"),
        ({"shell:LS": "deny"}, "ls", "allow"),
    ],
)
def test_the_most_narrow_rule_that_fits_decides(approval, command, rule):
    assert of_command(approval, command) == rule
    assert of_command(dict(reversed(approval.items())), command) == rule  # whatever the order of the settings


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("pair", list(itertools.permutations(STRICTEST_LAST, 2)), ids="-".join)
def test_of_equally_narrow_rules_the_strictest_decides(pair):
    rules = tuple(
        ConsentRule("shell", rule, pattern) for rule, pattern in zip(pair, ("l?", "?s"), strict=True)
    )
    strictest = max(pair, key=STRICTEST_LAST.index)
    assert rule_for(rules, "shell", {"command": "ls"}, "command", is_command=True) == strictest


SECOND_COMMANDS = [
    "; rm x",
    "&& rm x",
    "|| rm x",
    "| sh",
    "& rm x",
    "\nrm x",
    "\r\nrm x",
    "> /etc/passwd",
    ">> log",
    "< secret",
    "<(rm x)",
    "$(rm x)",
    "`rm x`",
    "${IFS}x",
    "$HOME",
    "$1",
    "$$",
    "$@",
    "$((1))",
    "(rm x)",
    "{ rm x; }",
    "\\\nrm x",
    "\\x",
    '"$(rm x)"',
]


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("more", SECOND_COMMANDS)
@pytest.mark.parametrize("form", ["git log {}", "git log{}", "true{} git log"])
def test_a_pattern_never_allows_a_command_that_holds_more_than_it_shows(form, more):
    command = form.format(more)
    assert of_command({"shell": "ask", "shell:*git log*": "allow"}, command) == "ask"
    assert of_command({"shell": "deny", "shell:*git log*": "allow"}, command) == "deny"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "sign", [chr(code) for code in range(128) if not chr(code).isalnum()], ids=lambda c: hex(ord(c))
)
def test_every_sign_that_a_shell_gives_a_meaning_to_keeps_a_pattern_from_allowing(sign):
    dangerous = set(";&|<>`\n\r(){}\\$*?['\"")
    found = of_command({"shell": "ask", "shell:echo*": "allow"}, f"echo a{sign}b")
    assert found == ("ask" if sign in dangerous else "allow")


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "command", ["grep 'x$' a", 'grep "x$" a', "echo 5 $", "git log --format=%h -- 'a b'", "ls *.py a?"]
)
def test_a_plain_command_with_signs_that_do_nothing_is_allowed(command):
    assert of_command({"shell": "ask", "shell:*": "allow"}, command) == "allow"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("rule", ["ask", "deny"])
@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "  git push  ",
        "cd x && git push -f",
        "true;git push",
        "git status | git push",
        "(git push)",
        "echo `git push`",
        "echo $(git push)",
        "{ git push; }",
        "make\ngit push origin",
        "git  push",
        'git "push"',
        "/usr/bin/git push",
        "sudo git push",
        "env X=1 git push",
        "bash -c 'git push'",
    ],
)
def test_a_pattern_that_forbids_finds_its_command_among_others(rule, command):
    assert of_command({"shell": "allow", "shell:git push*": rule}, command) == rule


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("pattern", ["git log*", "git log *", "git *"])
@pytest.mark.parametrize(
    "command",
    [
        "git log --output=x",
        "git log main --output=x",
        "git log --ext-diff",
        "git -c core.pager=x log",
        "git log *",
        "git log a?",
        "GIT_PAGER=x git log",
        "git log 'unbalanced",
    ],
)
def test_a_star_allows_no_option_and_nothing_that_the_shell_fills_in(pattern, command):
    assert of_command({"shell": "ask", f"shell:{pattern}": "allow"}, command) == "ask"


@pytest.mark.requirement("D8")
def test_a_pattern_that_forbids_fits_no_other_command():
    assert of_command({"shell": "allow", "shell:git push*": "deny"}, "echo git push") == "allow"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "path, rule",
    [
        ("docs/a.md", "allow"),
        ("./docs/a.md", "allow"),
        ("docs//a.md", "allow"),
        ("x/../docs/a.md", "allow"),
        ("docs/./deep/a.md", "allow"),
        ("docs/../src/a.py", "ask"),
        ("docs/../../etc/passwd", "ask"),
        ("../docs/a.md", "ask"),
        ("/somewhere/docs/a.md", "ask"),
        ("docs", "ask"),
        ("docsx/a.md", "ask"),
    ],
)
@pytest.mark.parametrize("pattern", ["docs/*", "./docs/*", "x/../docs/*"])
def test_a_path_is_the_path_that_it_leads_to(pattern, path, rule):
    assert of_path({"write_file": "ask", f"write_file:{pattern}": "allow"}, path) == rule


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "path",
    [
        "secrets/key",
        "./secrets/key",
        "a/../secrets/key",
        "/anywhere/secrets/key",
        "//secrets/key",
        "secrets//deep/key",
    ],
)
def test_a_forbidden_path_is_found_in_every_plain_spelling(path):
    assert of_path({"secrets/*": "allow", "read_file:secrets/*": "deny"}, path, "read_file") == "deny"
    assert of_path({"*:secrets/*": "deny"}, path, "read_file") == "deny"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "url, rule",
    [
        ("https://example.org/a", "allow"),
        ("HTTPS://Example.ORG/a", "allow"),
        (" https://example.org/a", "allow"),
        ("https://example.org.evil/a", "ask"),
        ("https://example.org@evil/a", "ask"),
        ("http://example.org/a", "ask"),
        ("https://evil/https://example.org/", "ask"),
        ("https://example.org/Case", "allow"),
    ],
)
def test_an_address_is_compared_without_regard_to_the_case_of_its_site(url, rule):
    assert of_url({"fetch_url": "ask", "fetch_url:https://example.org/*": "allow"}, url) == rule


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("arguments", [{}, {"path": None}, {"path": 3}, {"path": ["secrets/key"]}])
def test_a_call_without_a_proper_subject_falls_under_the_rule_of_its_tool(arguments):
    rules = written({"list_files": "ask", "list_files:secrets*": "allow"})
    assert rule_for(rules, "list_files", arguments, "path") == "ask"


@pytest.mark.requirement("D8")
def test_the_workspace_itself_is_the_path_of_a_call_that_names_none():
    assert rule_for(written({"list_files:.": "deny"}), "list_files", {}, "path") == "deny"


def test_a_tool_that_nobody_described_has_no_subject_and_only_the_rule_of_its_name():
    rules = written({"deploy": "ask", "deploy:*staging*": "allow"})
    assert rule_for(rules, "deploy", {"where": "staging"}, "") == "ask"
