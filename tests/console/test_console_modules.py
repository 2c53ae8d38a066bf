"""The parts of the console that need no browser, in Node: every file beside this one is a set of tests of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE = Path(sys.executable).parent / "node"
MODULES = sorted(HERE.glob("*.mjs"))


@pytest.mark.requirement("H3")
@pytest.mark.process
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_module_of_the_console_does_what_its_tests_say(module: Path):
    assert NODE.exists(), "Node is missing: scripts/set-up-clients puts it beside Python"
    done = subprocess.run([NODE, "--test", module], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_modules_to_test():
    assert {"event_stream", "shell_logic"} <= {module.stem for module in MODULES}
