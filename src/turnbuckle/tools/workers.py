"""Work on foreign content, in a process that can be killed.

An expression, a page or a charset can be made so that it takes forever, and Python holds its lock all the
while: on the loop or in a thread it would stop the whole server. A worker is a script of this package that
needs the standard library alone. It gets a wish as JSON, a line break, and whatever bytes belong to it, and
answers on its output. Before it reads that content it limits its own processor time and memory, so it ends
also when nobody is left to kill it.
"""

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from turnbuckle.tools.threads import in_thread


async def worked(
    script: Path,
    wish: Mapping[str, Any],
    content: bytes = b"",
    *,
    environment: Mapping[str, str],
    arguments: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
) -> bytes | None:
    """What the worker answers; None if it was killed, by its own limits or by somebody else."""
    worker = subprocess.Popen(
        [sys.executable, "-I", "-S", str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
        env=dict(environment),
        start_new_session=True,
    )
    request = msgspec.json.encode(wish) + b"\n" + content
    try:
        answer, _ = await in_thread(lambda: worker.communicate(request))
    except asyncio.CancelledError:
        worker.kill()  # which ends the thread, too; it reaps the process
        raise
    return answer if worker.returncode == 0 else None
