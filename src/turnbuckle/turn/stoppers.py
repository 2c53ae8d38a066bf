"""Which commands could have ended the server that ran them. A pure question about words in command position.

A word in a path, a message, a search or a written file is not evidence. A program that ends processes,
services, containers or the machine is, if what it aims at can be this server: by its name, as all there is,
or as something that only the shell could have told.
"""

import re
from collections.abc import Callable
from itertools import pairwise

from turnbuckle.turn.shell_words import programs

OUR_NAME = "turnbuckle"
_OUR_PROCESSES = (
    OUR_NAME,
    "python",
    "python3",
    "/usr/bin/python3 /usr/local/bin/turnbuckle serve",
    "python -m turnbuckle",
)
_HELP = frozenset({"--help", "--version"})
_ENDS = frozenset(
    "stop restart try-restart reload-or-restart force-reload kill shutdown down bounce condrestart".split()
)
_ENDS_ALL = frozenset(
    (
        "reboot poweroff halt kexec soft-reboot suspend hibernate hybrid-sleep sleep rescue emergency "
        "isolate exit"
    ).split()
)
_HOSTS = frozenset({"docker", "containerd", "podman", "kubelet", "supervisord", "supervisor"})
_CONTAINER_ENDS = frozenset({"stop", "restart", "kill", "rm", "down", "pause"})
_CODE = re.compile(r"\bkill(?:pg)?\s*\(|getppid|process\.kill|\bPPID\b")
_COSTLY = re.compile(r"[(\\]|(?:[*+?{].*){4}")
_LONG = 100
_NUMBER = re.compile(r"-?\d+")


def could_stop(command: str) -> bool:
    """Whether this shell command could have ended the server that ran it."""
    return any(_ends_us(words[0], words[1:]) for words in programs(command))


def _ends_us(name: str, words: tuple[str, ...]) -> bool:
    if any(word == ">/proc/sysrq-trigger" for word in words):
        return True
    judge = _JUDGES.get(name)
    return judge is not None and not _HELP & set(words) and judge(words)


def _machine(words: tuple[str, ...]) -> bool:
    return "-c" not in words and "-w" not in words and "--wtmp-only" not in words


def _runlevel(words: tuple[str, ...]) -> bool:
    return bool(words) and words[0] in ("0", "1", "6", "S", "s")


def _kill(words: tuple[str, ...]) -> bool:
    """Not `kill -l`, `kill -0`, nor jobs of the shell itself."""
    if not words or words[0] in ("-l", "-L", "--list", "-0") or words[:2] in (("-s", "0"), ("-n", "0")):
        return False
    targets = list(words)
    if targets[0] in ("-s", "-n", "--signal"):
        targets = targets[2:]
    elif (
        targets[0].startswith("-")
        and targets[0] != "--"
        and (len(targets) > 1 or not _NUMBER.fullmatch(targets[0]))
    ):
        targets = targets[1:]
    return any(_may_be_us(target) for target in targets)


def _may_be_us(target: str) -> bool:
    return bool(_NUMBER.fullmatch(target) and target != "0") or (
        target.startswith("$") and target not in ("$!", "$$")
    )


def _kill_by_name(words: tuple[str, ...], *, exact: bool) -> bool:
    options = {word for word in words if word.startswith("-")}
    if options & {"-u", "-U", "--user", "--euid", "--uid", "-l", "--list"} or any(
        word.startswith("-u") for word in options
    ):
        return not options & {"-l", "--list"}
    if options & {"-0", "--count", "-c"}:
        return False
    wanted = [word for word in words if not word.startswith("-")]
    return any(_is_our_name(word, exact=exact) for word in wanted)


def _is_our_name(word: str, *, exact: bool) -> bool:
    if word.startswith("$"):
        return True
    if exact:
        return word in _OUR_PROCESSES
    try:
        # A pattern of the model's making is tried only where trying it costs nothing.
        pattern = re.compile(word) if len(word) <= _LONG and not _COSTLY.search(word) else None
    except re.error:
        pattern = None
    if pattern is None:
        return any(name in word for name in (OUR_NAME, "python"))
    return any(pattern.search(process) for process in _OUR_PROCESSES)


def _service(words: tuple[str, ...]) -> bool:
    """Any order of verb and name: `systemctl stop x`, `service x stop`, `supervisorctl restart all`."""
    plain = [word for word in words if not word.startswith("-")]
    if any(word in _ENDS_ALL for word in plain[:1]):
        return True
    ends = [word for word in plain if word in _ENDS]
    names = [word.removesuffix(".service") for word in plain if word not in _ENDS]
    if not ends:
        return False
    return not names or any(
        OUR_NAME in name or name in _HOSTS or name == "all" or name.startswith("$") for name in names
    )


def _container(words: tuple[str, ...]) -> bool:
    plain = [word for word in words if not word.startswith("-")]
    compose = plain[:1] == ["compose"]
    if compose:
        files = {
            word
            for flag, word in pairwise(words)
            if flag in ("-f", "-p", "--file", "--project-name", "--profile")
        }
        plain = [word for word in plain[1:] if word not in files]
    if plain[:1] == ["container"]:
        plain = plain[1:]
    if not plain or plain[0] not in _CONTAINER_ENDS:
        return False
    if plain[0] == "rm" and not any(word.startswith("-") and "f" in word for word in words):
        return False
    names = plain[1:]
    return (compose and not names) or any(OUR_NAME in name or name.startswith("$") for name in names)


def _compose(words: tuple[str, ...]) -> bool:
    return _container(("compose", *words))


def _cluster(words: tuple[str, ...]) -> bool:
    return any(word in ("delete", "restart", "scale", "drain") for word in words) and any(
        OUR_NAME in word for word in words
    )


def _port(words: tuple[str, ...]) -> bool:
    return (
        any(word.startswith("-") and not word.startswith("--") and "k" in word for word in words)
        or "--kill" in words
    )


def _code(words: tuple[str, ...]) -> bool:
    """Programs that are given on the command line."""
    return any(flag in ("-c", "-e", "--eval") and _CODE.search(code) for flag, code in pairwise(words))


def _session(words: tuple[str, ...]) -> bool:
    return any(word.startswith(("terminate-", "kill-")) for word in words)


def _launchd(words: tuple[str, ...]) -> bool:
    ends = ("stop", "kill", "bootout", "unload", "remove", "kickstart", "reboot")
    return any(word in ends for word in words) and any(OUR_NAME in word for word in words)


def _always(words: tuple[str, ...]) -> bool:
    return bool(words)


_JUDGES: dict[str, Callable[[tuple[str, ...]], bool]] = {
    **dict.fromkeys(("reboot", "shutdown", "poweroff", "halt"), _machine),
    **dict.fromkeys(("init", "telinit"), _runlevel),
    "kill": _kill,
    "skill": lambda words: _kill_by_name(words, exact=True),
    "pkill": lambda words: _kill_by_name(words, exact=False),
    "killall": lambda words: _kill_by_name(words, exact=True),
    "killall5": lambda words: True,
    **dict.fromkeys(
        ("systemctl", "service", "rc-service", "supervisorctl", "pm2", "sv", "initctl"), _service
    ),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _container),
    **dict.fromkeys(("docker-compose", "podman-compose"), _compose),
    **dict.fromkeys(("kubectl", "oc"), _cluster),
    "fuser": _port,
    "kill-port": _always,
    "loginctl": _session,
    "launchctl": _launchd,
    **dict.fromkeys(("python", "python3", "perl", "ruby", "node"), _code),
}
