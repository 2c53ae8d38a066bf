"""The house rules hold everywhere, and each of them can fail."""

import re
import sys
import tomllib
from collections import Counter

import pytest
import tidy
from tidy import Rule, Source

WIRE = "src/turnbuckle/wire/sse.py"
LAB = "src/turnbuckle/lab/provider.py"
CLI = "src/turnbuckle/cli/main.py"
TEST = "tests/wire/test_sse.py"
HERE = "/".join(("", "root", "secret"))
HOST = ".".join(("pypi", "org"))

BROKEN: list[tuple[Rule, str, str]] = [
    (tidy.imports_go_down, WIRE, "from turnbuckle.lab import script"),
    (tidy.imports_go_down, WIRE, "import turnbuckle.reply.seam"),
    (tidy.imports_go_down, WIRE, "from turnbuckle import reply"),
    (tidy.imports_go_down, WIRE, "from turnbuckle import __version__"),
    (tidy.imports_go_down, "src/turnbuckle/vocab/ids.py", "from turnbuckle.wire.sse import frame"),
    (tidy.imports_go_down, "src/turnbuckle/reply/seam.py", "from turnbuckle.wire.sse import frame"),
    (tidy.imports_go_down, LAB, "def late():\n    from turnbuckle.cli.main import main"),
    (tidy.imports_go_down, "src/turnbuckle/attic/box.py", ""),
    (tidy.imports_go_down, "src/turnbuckle/agent/work.py", "from turnbuckle.server.keys import KeyFile"),
    (tidy.pure_layers_touch_nothing, WIRE, "import asyncio"),
    (tidy.pure_layers_touch_nothing, WIRE, "import os.path"),
    (tidy.pure_layers_touch_nothing, WIRE, "from time import monotonic"),
    (tidy.pure_layers_touch_nothing, WIRE, "from urllib import request"),
    (tidy.pure_layers_touch_nothing, WIRE, "from datetime import datetime\nstamp = datetime.now()"),
    (tidy.pure_layers_touch_nothing, WIRE, "data = open('x').read()"),
    (tidy.imports_stand_at_the_top, LAB, "def late():\n    import json"),
    (tidy.only_the_command_line_prints, LAB, "print('hello')"),
    (tidy.the_command_line_prints_in_one_place, CLI, "print('hello')"),
    (tidy.the_command_line_prints_in_one_place, CLI, "sys.stderr.write(name)"),
    (tidy.the_command_line_prints_in_one_place, CLI, "pour(sys.stdout.buffer)"),
    (tidy.the_command_line_prints_in_one_place, CLI, "os.write(2, name.encode())"),
    (tidy.the_command_line_prints_in_one_place, CLI, "answer = input(question)"),
    (tidy.the_command_line_prints_in_one_place, CLI, "traceback.print_exc(file=sys.stderr)"),
    (tidy.modules_have_a_noun, "src/turnbuckle/wire/utils.py", ""),
    (tidy.modules_have_a_noun, "src/turnbuckle/common/ids.py", ""),
    (tidy.modules_say_what_they_are, WIRE, "import json"),
    (tidy.constructors_take_few, LAB, "class A:\n    def __init__(self, a, b, c, d, *, e, f, g, h, i): ..."),
    (tidy.nobody_compares_protocols, LAB, "if (protocol, where) == ('openai_chat', 'choice'): ..."),
    (tidy.the_core_says_what_it_takes, "src/turnbuckle/turn/state.py", "def no(status: Any): ..."),
    (tidy.the_core_says_what_it_takes, "src/turnbuckle/vocab/ids.py", "def no(ids: set[Any]): ..."),
    (tidy.private_names_stay_at_home, LAB, "size = reader._buffer"),
    (tidy.private_names_stay_at_home, LAB, "from aiohttp.web import _run_app"),
    (tidy.nothing_is_unfinished, WIRE, "# TO" + "DO: the rest"),
    (tidy.nothing_is_unfinished, WIRE, "# good enough for" + " now"),
    (tidy.functions_are_short, TEST, "def long():\n" + "    x = 1\n" * 70),
    (tidy.functions_are_short, LAB, "async def long():\n" + "    x = 1\n" * 70),
    (tidy.files_are_short, LAB, "x = 1\n" * 501),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept Exception:\n    pass"),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept:\n    y()"),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept Exception as error:\n    y()"),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept (OSError, builtins.BaseException):\n    y()"),
    (tidy.tests_never_sleep_skip_or_mock, TEST, "time.sleep(1)"),
    (tidy.tests_never_sleep_skip_or_mock, TEST, "async def test_x():\n    await asyncio.sleep(0.1)"),
    (tidy.tests_never_sleep_skip_or_mock, TEST, "from unittest import mock"),
    (tidy.tests_never_sleep_skip_or_mock, TEST, "@pytest.mark.skipif(True, reason='')\ndef test_x(): ..."),
    (tidy.no_machine_is_named, "README.md", f"see {HERE}"),
    (tidy.no_machine_is_named, "Makefile", f"--index https://{HOST}/simple"),
    (tidy.pages_need_no_network, "docs/a.md", "Open https://example.org/page first."),
]

SOUND: list[tuple[Rule, str, str]] = [
    (
        tidy.imports_go_down,
        WIRE,
        "import json\nfrom turnbuckle.vocab.ids import CallId\nfrom turnbuckle.wire import think",
    ),
    (
        tidy.imports_go_down,
        LAB,
        "from turnbuckle.wire.sse import frame\nfrom turnbuckle.reply.seam import Seam",
    ),
    (tidy.imports_go_down, CLI, "from turnbuckle import __version__\nfrom turnbuckle.lab import script"),
    (tidy.imports_go_down, TEST, "from turnbuckle.lab import script"),
    (tidy.pure_layers_touch_nothing, WIRE, "import re\nfrom email.utils import parsedate_to_datetime"),
    (tidy.pure_layers_touch_nothing, LAB, "import asyncio, time"),
    (tidy.imports_stand_at_the_top, CLI, "def late():\n    import json"),
    (tidy.only_the_command_line_prints, CLI, "print('hello')"),
    (tidy.the_command_line_prints_in_one_place, CLI, "echo('hello')\nsys.stdout.flush()\nfile.write(x)"),
    (tidy.the_command_line_prints_in_one_place, "src/turnbuckle/cli/echo.py", "print(visible_line(x))"),
    (tidy.modules_have_a_noun, WIRE, ""),
    (tidy.modules_say_what_they_are, WIRE, '"""Framing."""'),
    (tidy.constructors_take_few, LAB, "class A:\n    def __init__(self, a, b, c, d, *, e, f, g, h): ..."),
    (tidy.nobody_compares_protocols, "src/turnbuckle/wire/gemini/request.py", "state.protocol == 'gemini'"),
    (tidy.nobody_compares_protocols, LAB, "protocol = 'gemini'"),
    (tidy.the_core_says_what_it_takes, "src/turnbuckle/turn/state.py", "def no(given: dict[str, Any]): ..."),
    (tidy.the_core_says_what_it_takes, WIRE, "def no(status: Any): ..."),
    (
        tidy.private_names_stay_at_home,
        LAB,
        "class A:\n    def copy(self, other):\n        self._a = other._a",
    ),
    (tidy.nothing_is_unfinished, WIRE, "# a stubborn server"),
    (tidy.functions_are_short, LAB, "def short():\n" + "    x = 1\n" * 69),
    (tidy.files_are_short, LAB, "x = 1\n" * 500),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept Exception:\n    close()\n    raise"),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept (OSError, ValueError):\n    pass"),
    (tidy.no_error_is_swallowed, LAB, "try:\n    x()\nexcept Exception as error:\n    found.append(error)"),
    (tidy.tests_never_sleep_skip_or_mock, TEST, "asyncio.sleep(0)\nclock.sleep(5)"),
    (
        tidy.tests_never_sleep_skip_or_mock,
        TEST,
        "from turnbuckle.lab.clock import VirtualClock\nasyncio.sleep(5)",
    ),
    (tidy.no_machine_is_named, "README.md", "make run, then docs/architecture.md or src/work/x"),
    (tidy.pages_need_no_network, "README.md", "curl http://127.0.0.1:8089/v1/models"),
]


def name(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("rule", tidy.CODE_RULES, ids=name)
def test_the_code_keeps_the_rule(rule: Rule):
    assert [complaint for source in tidy.python_files() for complaint in rule(source)] == []


@pytest.mark.parametrize("rule", tidy.TEXT_RULES, ids=name)
def test_every_text_keeps_the_rule(rule: Rule):
    assert [complaint for source in tidy.all_files() for complaint in rule(source)] == []


@pytest.mark.parametrize("rule, path, text", BROKEN, ids=name)
def test_the_rule_finds_what_breaks_it(rule: Rule, path: str, text: str):
    complaints = list(rule(Source(path, text)))
    assert len(complaints) == 1
    assert complaints[0].startswith(f"{path}:")


@pytest.mark.parametrize("rule, path, text", SOUND, ids=name)
def test_the_rule_lets_sound_code_pass(rule: Rule, path: str, text: str):
    assert list(rule(Source(path, text))) == []


def test_no_class_name_stands_twice_in_the_package():
    assert list(tidy.class_names_stand_once(tidy.python_files())) == []


def test_a_class_name_that_stands_twice_is_found():
    twice = [Source(path, "class Result: ...") for path in (WIRE, LAB, TEST)]
    assert list(tidy.class_names_stand_once(twice)) == [f"{LAB}:1: Result is a class of {WIRE} too"]
    assert list(tidy.class_names_stand_once(twice[::2])) == []


def test_nothing_in_the_package_is_for_nobody():
    assert list(tidy.names_are_used(tidy.python_files())) == []


def test_a_name_that_nothing_uses_is_found():
    code = "LIMIT = 1\n\ndef used(): ...\n\ndef unused(): ...\n\n@app.command\ndef shown(): ...\n\nused()"
    tests = Source(TEST, "unused()\nLIMIT")
    complaints = [
        f"{WIRE}:{line}: nothing in the package uses {name}" for line, name in ((1, "LIMIT"), (5, "unused"))
    ]
    assert list(tidy.names_are_used([Source(WIRE, code), tests])) == complaints
    assert list(tidy.names_are_used([Source("src/turnbuckle/testing/clock.py", code), tests])) == []


def test_every_rule_is_tried_on_sound_and_on_broken_code():
    rules = {*tidy.CODE_RULES, *tidy.TEXT_RULES}
    assert rules == {rule for rule, _, _ in BROKEN} == {rule for rule, _, _ in SOUND}


def test_the_walk_finds_the_package_and_its_tests():
    paths = {source.path for source in tidy.all_files()}
    assert {"src/turnbuckle/vocab/events.py", "tests/test_tidy.py", "README.md", ".ci/run"} <= paths


def test_test_files_have_unique_names_and_no_packages():
    inside = [source for source in tidy.python_files() if source.path.startswith("tests/")]
    names = Counter(source.path.rpartition("/")[2] for source in inside)
    assert [name for name, count in names.items() if count > 1 or name == "__init__.py"] == []


def test_the_package_declares_exactly_what_it_imports():
    """A dependency that nobody imports is dropped; one that only tests need stands under dev."""
    project = tomllib.loads((tidy.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["postgres"], *extras["s3"]]
    declared = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in lines}
    inside = [source for source in tidy.python_files() if source.in_package]
    imported = {name.split(".")[0] for source in inside for _, name in tidy.imports(source.nodes)}
    loaded_when_asked = {"genai_prices"}
    package_of = {"opentelemetry": "opentelemetry_api"}
    needed = {package_of.get(name, name) for name in imported | loaded_when_asked}
    assert needed - sys.stdlib_module_names - {"turnbuckle"} == declared


def test_what_is_called_like_tests_is_still_checked_strictly():
    """Modules of tests are exempted from strict types by their names, and one of another folder may have the same."""
    settings = tomllib.loads((tidy.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    by_rule = {rule.get("disallow_untyped_defs"): set(rule["module"]) for rule in settings["overrides"]}
    lax = {name.removesuffix(".*") for name in by_rule[False]}
    others = [path for place in ("benchmarks", "scripts", "src") for path in (tidy.ROOT / place).iterdir()]
    strict = {path.stem for path in others if path.stem in lax and not path.name.startswith(("_", "."))}
    assert by_rule[True] == strict
    tests = {path.stem for path in (tidy.ROOT / "tests").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert lax <= tests
