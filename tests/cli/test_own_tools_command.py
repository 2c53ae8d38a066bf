"""Own tools by the settings, in the real command."""

from pathlib import Path

import pytest
from support.processes.commands import accept, command

TOOLS = '''
from turnbuckle import ToolContext, tool


@tool(effect="write", subject="name")
def greet(name: str, context: ToolContext) -> str:
    """Greet somebody."""
    context.publish("clearing my throat\\n")
    (context.workspace / "greeted.txt").write_text(name)
    return f"hello {name}"
'''


def set_up(folder: Path, tools: str = TOOLS, more: str = "") -> None:
    (folder / "my_tools.py").write_text(tools)
    (folder / "turnbuckle.toml").write_text(f'[tools]\nmodules = ["my_tools.py"]\n{more}')
    accept(folder)


@pytest.mark.process
@pytest.mark.requirement("D7", "H2")
def test_the_command_runs_an_own_tool_and_the_doctor_shows_where_it_comes_from(tmp_path: Path):
    set_up(tmp_path)
    ran = command(tmp_path, "run", 'call greet with {"name": "Ada"}')
    assert ran.code == 0, ran.err
    assert "→ greet Ada" in ran.err
    assert "hello Ada" in ran.out
    assert (tmp_path / "greeted.txt").read_text() == "Ada"
    told = command(tmp_path, "doctor")
    line = next(line for line in (told.out + told.err).splitlines() if "tools.modules" in line)
    assert "my_tools.py" in line
    assert "turnbuckle.toml, line 2" in line


@pytest.mark.process
@pytest.mark.requirement("D8", "H2")
def test_rules_hold_for_own_tools_and_a_broken_module_stops_the_command_with_a_sentence(tmp_path: Path):
    set_up(tmp_path, more='approval = { "greet:Ada*" = "deny" }\n')
    assert "do not allow" in command(tmp_path, "run", 'call greet with {"name": "Ada Lovelace"}').out
    assert not (tmp_path / "greeted.txt").exists()
    set_up(tmp_path, "import turnbuckle\n\nturnbuckle.nothing\n")
    broken = command(tmp_path, "run", "list")
    assert broken.code == 2
    assert broken.err.startswith("turnbuckle: tools.modules: ")
    assert "my_tools.py, line 3: AttributeError" in broken.err
    assert "Traceback" not in broken.err
