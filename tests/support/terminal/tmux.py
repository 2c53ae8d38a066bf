"""A real terminal for tests: a tmux server of its own on a socket of its own, 80 columns by 24 rows, whose screen can
be read back. A shell around the program notes its exit code and stays, so that the last screen can be looked at. Every
byte that the program wrote is in `written`, escape codes included.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes.commands import ENVIRONMENT
from support.processes.served_folder import PATIENCE, until, versioned

COLUMNS, ROWS = 80, 24
MISSING = "tmux is not there: scripts/set-up-clients gets it, or sudo apt-get install tmux"


class Terminal:
    """One terminal with one program in it."""

    def __init__(self, folder: Path, record: Path, columns: int = COLUMNS, **environment: str) -> None:
        self.folder = folder
        self.columns = columns
        self._name = f"turnbuckle-{uuid.uuid4().hex[:12]}"
        self._raw = record / f"{self._name}.raw"
        self._code = record / f"{self._name}.code"
        # What a test terminal inherits would otherwise tell the program that it sits in another one.
        kept = {
            name: value for name, value in ENVIRONMENT.items() if name not in ("TMUX", "TMUX_PANE", "COLUMNS")
        }
        self._sockets = tempfile.TemporaryDirectory(
            prefix="tmux-"
        )  # short: the address of a socket has 108 bytes
        self._environment = {**kept, "LC_ALL": "C.UTF-8", "TMUX_TMPDIR": self._sockets.name, **environment}
        self._variables = environment

    def turnbuckle(self, *arguments: str) -> "Terminal":
        """Start the command in it."""
        return self.start(sys.executable, "-m", "turnbuckle.cli.main", *arguments)

    def start(self, *command: str) -> "Terminal":
        """Start a program in it. It begins only when its output is being recorded."""
        term = [f"TERM={self._variables['TERM']}"] if "TERM" in self._variables else []
        words = shlex.join(["env", *term, *command])
        # Ctrl-C goes to everybody in the terminal; the shell must outlive it.
        script = f"trap : INT; tmux wait-for begin; {words}; echo $? >{shlex.quote(str(self._code))}; exec tmux wait-for end"
        self._tmux(
            *("-u", "-f", "/dev/null", "start-server", ";", "set-option", "-g", "status", "off", ";"),
            *("set-option", "-g", "history-limit", "20000", ";"),
            *("new-session", "-d", "-x", str(self.columns), "-y", str(ROWS), "-c", str(self.folder), script),
        )
        self._tmux("pipe-pane", f"exec cat >{shlex.quote(str(self._raw))}")
        until(self._raw.exists)
        self._tmux("wait-for", "-S", "begin")
        return self

    def send(self, *keys: str) -> None:
        """Press keys by their names, such as `Enter`, `C-c`, `M-Enter`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text as it is."""
        self._tmux("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        """Paste text as a terminal does, with brackets around it if the program asked for them."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def screen(self) -> str:
        """What is on the screen, without blanks at the ends of lines."""
        return self._tmux("capture-pane", "-p")

    def lines(self) -> list[str]:
        """Everything that was ever on the screen and was not taken away, as unwrapped lines."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip().splitlines()

    def text(self) -> str:
        """The same as one text, with blanks at the ends of lines gone."""
        return "\n".join(line.rstrip() for line in self.lines())

    @property
    def written(self) -> str:
        return self._raw.read_bytes().decode("utf-8", "replace")

    def wait_for(self, words: str) -> str:
        """Wait until the screen shows these words, and give it."""
        return self.wait_until(lambda screen: words in screen, words)

    def wait_until(self, holds: Callable[[str], bool], wanted: str = "") -> str:
        """Wait until the screen is as wanted, and give it."""
        seen = ""

        def look() -> bool:
            nonlocal seen
            seen = self.screen()
            return holds(seen)

        until(look, lambda: f"waited for {wanted!r}\n{self.text()}")
        return seen

    def code(self) -> int:
        """The exit code, when there is one."""
        until(lambda: self._code.exists() and self._code.read_text().endswith("\n"), self.text)
        return int(self._code.read_text())

    def close(self) -> None:
        subprocess.run(
            [*self._command(), "kill-server"], env=self._environment, capture_output=True, check=False
        )
        self._sockets.cleanup()

    def _command(self) -> list[str]:
        return ["tmux", "-L", self._name]

    def _tmux(self, *arguments: str) -> str:
        ran = subprocess.run(
            [*self._command(), *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, (arguments, ran.stderr)
        return ran.stdout


@pytest.fixture
def terminal(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Terminal]]:
    """Terminals that are gone when the test ends. By default they work in the test's own folder, which is a git
    work tree."""
    if shutil.which("tmux") is None:
        pytest.fail(MISSING, pytrace=False)
    made: list[Terminal] = []
    record = tmp_path_factory.mktemp("terminal")

    def open_one(
        folder: Path = tmp_path, columns: int = COLUMNS, git: bool = True, **environment: str
    ) -> Terminal:
        if git:
            versioned(folder)
        made.append(Terminal(folder, record, columns, **environment))
        return made[-1]

    yield open_one
    for one in made:
        one.close()
