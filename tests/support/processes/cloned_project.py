"""A clone of this project, ready for `make`: what its set-up would install is borrowed from the environment that the tests run
in, and all that is the project's own is the clone's."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
_COMMAND = "import sys\nfrom turnbuckle.cli.main import main\nsys.exit(main())\n"


def clone_into(folder: Path) -> Path:
    """The last commit, with an environment whose packages are ours and whose turnbuckle is the clone's."""
    source = ["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(folder)]
    subprocess.run(source, check=True, capture_output=True)
    home = folder / ".venv"
    venv.create(home, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    # Paths are searched in this order, and a finder of an editable install would come before them all.
    (packages / "borrowed.pth").write_text(f"{folder / 'src'}\n{sysconfig.get_path('purelib')}\n")
    program = home / "bin" / "turnbuckle"
    program.write_text(f"#!{home / 'bin' / 'python'}\n{_COMMAND}")
    program.chmod(0o755)
    (home / ".ready").write_text(f"{folder.resolve()}\n")
    return folder


@contextmanager
def make_run(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`make run`, as the README says, and its end by the signal that a terminal sends."""
    usual = ("PATH", "LANG", "LC_ALL", "TZ")
    environment = {name: os.environ[name] for name in usual if name in os.environ}
    environment |= {"HOME": str(folder), "BROWSER": "true", "PYTHON": sys.executable}
    with open(folder / "make.log", "w") as log:
        running = subprocess.Popen(
            ["make", "run", f"ARGS={' '.join(arguments)}"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            os.killpg(running.pid, 15)
        running.wait(100)
