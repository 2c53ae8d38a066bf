"""Tasks for the simulated world in which a person is asked: by a rule, or by the model itself."""

from support.worlds.tasks import DONE, END, LINES, READ, SHELL, WRITE, task

from turnbuckle.testing.world.brains import PlannedCall, Round, planned
from turnbuckle.testing.world.people import Says, always
from turnbuckle.testing.world.run_world import Task

PUSH = PlannedCall("shell", {"command": "git push"})
ERASE = PlannedCall("shell", {"command": "make all && rm -rf ."})
OTHER = PlannedCall("read_file", {"path": "b.txt"})
QUESTION = PlannedCall("ask_user", {"question": "Which colour shall it be?"})
ASK_SHELL = {"shell": "ask"}
LONG_THOUGHT = 50_000.0  # more than a whole turn may take


def says_no_to_b(asked):
    return Says("denied", "keep out") if asked.arguments.get("path") == "b.txt" else Says("allowed")


def answers(asked):
    return Says("answered", "blue") if asked.kind == "question" else Says("allowed")


PATTERNS = {"shell": "ask", "shell:make*": "allow", "shell:rm *": "deny", "read_file:./b.txt": "deny"}

ASKING_TASKS: tuple[Task, ...] = (
    task("consent", planned(Round("I run it.", (SHELL,)), END), approval=ASK_SHELL, person=always("allowed", seconds=LONG_THOUGHT)),
    task("no consent", planned(Round("", (SHELL,)), END), approval=ASK_SHELL, person=always("denied", "not today")),
    task("no consent in time", planned(Round("", (SHELL,)), END), approval=ASK_SHELL, answer_seconds=LONG_THOUGHT),
    task("nobody who could consent", planned(Round("", (SHELL, QUESTION)), END), approval=ASK_SHELL, attended=False, ends="partial"),
    task("a rule says no", planned(Round("", (READ, SHELL)), END), approval={"*": "deny"}),
    task("three reads, asked about together", planned(Round("", (READ, OTHER, READ)), END), approval={"read_file": "ask"}, person=says_no_to_b),
    task("consent to a write, then to another", planned(Round("", (WRITE, SHELL)), END, pieces=60), approval={"*": "ask"}, person=always("allowed"), files={"a.txt": LINES}),
    task("consent to what a draft became", planned(Round("", (WRITE,)), END, pieces=40), approval={"write_file": "ask"}, person=always("allowed"), files={"a.txt": LINES}, kill_after=170),
    task("no consent to what a draft became", planned(Round("", (WRITE,)), END, pieces=40), approval={"write_file": "ask"}, person=always("denied"), files={}, kill_after=170),
    task("a question", planned(Round("I ask.", (QUESTION,)), END), person=answers),
    task("a question that nobody answers", planned(Round("", (QUESTION,)), END), answer_seconds=60.0),
    task("a question, a read and a command", planned(Round("", (QUESTION, READ, SHELL)), END), approval=ASK_SHELL, person=answers),
    task("patterns", planned(Round("", (SHELL, PUSH, ERASE, PlannedCall("read_file", {"path": "x/../b.txt"}))), END, pieces=40), approval=PATTERNS, person=always("allowed")),
    task("consent to a call that cannot run", planned(Round("", (PlannedCall("shell", {"order": "x"}), PlannedCall("rm_all", {}))), END), approval={"*": "ask"}),
)  # fmt: skip

__all__ = ["ASKING_TASKS", "DONE"]
