"""Pastes, files, commands of one's own and lists in a real terminal, narrow and wide."""

import pytest
from support.processes.served_folder import lab_in_thread, lab_settings

from turnbuckle.lab.script import Finish, Say

pytestmark = pytest.mark.process
READY = "/help lists"
PASTED = "\n".join(f"row {number}" for number in range(120))


@pytest.mark.requirement("H13")
@pytest.mark.parametrize("columns", [80, 130])
def test_what_is_typed_is_short_on_the_screen_and_whole_for_the_model(columns, terminal, tmp_path):
    with lab_in_thread(lambda request: (Say("Heard."), Finish())) as behind:
        (tmp_path / "work" / "notes").mkdir(parents=True)
        (tmp_path / "work" / "notes" / "plan.md").write_text("a plan")
        (tmp_path / "turnbuckle.toml").write_text(lab_settings(behind.url))
        chat = terminal(columns=columns).turnbuckle("chat")
        chat.wait_for(READY)

        def said():
            return behind.provider.requests[-1].body["messages"][-1]["content"]

        chat.type("look at ")
        chat.paste(PASTED)
        chat.wait_for("› look at [pasted 120 lines]")
        chat.send("Enter")
        chat.wait_for("completed after")
        assert said() == f"look at {PASTED}"
        assert "row 60" not in chat.text()
        assert "› look at [pasted 120 lines]" in chat.text()

        chat.type("read @pla")
        chat.wait_for("notes/plan.md")
        chat.send("Tab")
        chat.wait_for("› read @notes/plan.md")
        chat.send("Enter")
        chat.wait_until(lambda _: chat.text().count("completed after") == 2)
        assert said() == "read notes/plan.md"

        chat.type("!echo mine @notes/plan.md; pwd")
        chat.send("Enter")
        chat.wait_for("/share sends this to the model")
        assert len(behind.provider.requests) == 2
        chat.type("/share is it right?")
        chat.send("Enter")
        chat.wait_until(lambda _: chat.text().count("completed after") == 3)
        shared = (
            "I ran `echo mine @notes/plan.md; pwd` (exit code 0). It printed:\n```\nmine @notes/plan.md\n"
        )
        assert said().startswith(shared)
        assert said().endswith("\n```\nis it right?")

        chat.type("/tools")
        chat.send("Enter")
        chat.wait_for("list_files")
        chat.type("/runs")
        chat.send("Enter")

        def listed(screen):
            return [line for line in screen.splitlines() if " completed " in line and line.startswith("r2")]

        rows = chat.wait_until(lambda screen: "RUN  " in screen and len(listed(screen)) == 3, "three rows")
        assert all(len(line) <= columns for line in rows.splitlines())
        assert "finish_call" not in chat.text()
        chat.send("C-d")
        assert chat.code() == 0
        assert "Traceback" not in chat.text()
