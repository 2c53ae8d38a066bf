"""Attacks from inside the sandbox, under both mechanisms, with real processes: it tries to leave and cannot."""

import os
import socket
import sys
from pathlib import Path

import pytest
from support.tools.sandbox_attack import MECHANISMS, SECRET, Attack, all_refused, tried, victim

pytestmark = pytest.mark.process


@pytest.fixture(params=MECHANISMS)
def attack(request: pytest.FixtureRequest, tmp_path: Path) -> Attack:
    return Attack(tmp_path, request.param)


@pytest.mark.requirement("R7")
def test_the_workspace_can_be_worked_in(attack: Attack):
    command = (
        "mkdir -p a/b && echo one >a/b/c && mv a/b/c d && ln -s d e && cat e && rm e && chmod +x d && pwd"
    )
    outcome = attack.do(command)
    assert (outcome.status, outcome.text) == ("finished", f"one\n{attack.workspace.resolve()}\n")
    assert (attack.workspace / "d").read_text() == "one\n"
    own = "$TMPDIR/of-a-command"  # whoever has a folder /tmp/t sees it there, too, if the project lies in it
    assert attack.says(f"echo x >{own} && cat {own} && echo y >~/u && cat ~/u") == "x\ny\n"
    assert attack.says(f"cat {own} ~/u") == "x\ny\n"  # the same session finds it again
    assert list(attack.home.glob("u")) == []
    assert attack.do("exit 7").exit_code == 7
    assert attack.do("kill -9 $$").exit_code == 137


@pytest.mark.requirement("R7")
def test_home_keys_and_journal_are_not_read_by_any_path(attack: Attack):
    outside = [attack.home / "notes.txt", attack.home / ".ssh/id", attack.data / "journal.db"]
    for number, path in enumerate(outside):
        (attack.workspace / f"link{number}").symlink_to(path)
        os.symlink(path.parent, attack.workspace / f"folder{number}")
    paths = [
        *map(str, outside),
        *(f"link{number}" for number in range(3)),
        *(f"folder{number}/{path.name}" for number, path in enumerate(outside)),
        *(os.path.relpath(path, attack.workspace) for path in outside),
        *(f"/proc/self/root{path}" for path in outside),
        *(f"/proc/self/cwd/../../{path.relative_to(attack.home.parent)}" for path in outside),
    ]
    said = attack.says("for one in " + " ".join(paths) + "; do cat $one; done 2>&1")
    assert SECRET not in said
    assert len(said.splitlines()) == len(paths)
    assert SECRET not in attack.says(f"grep -rs . {attack.home} {attack.data} /proc/*/environ /etc/shadow*")


@pytest.mark.requirement("R7")
def test_nothing_outside_is_written_or_removed(attack: Attack):
    before = sorted(attack.home.rglob("*"))
    (attack.workspace / "way").symlink_to(attack.home)
    targets = [attack.home / "new", attack.workspace / "way/new2", Path("/usr/new"), Path("/etc/new")]
    said = attack.says(
        "".join(f"echo x >{target}; " for target in targets)
        + f"rm -rf {attack.home}/.ssh {attack.data}/journal.db; ln {attack.home}/notes.txt hard; "
        f"truncate -s 0 {attack.home}/notes.txt; mv {attack.home}/notes.txt ."
    )
    assert "denied" in said or "No such file" in said or "Read-only" in said
    assert not any(os.path.lexists(target) for target in targets if not target.is_relative_to(attack.home))
    assert sorted(attack.home.rglob("*")) == before
    assert (attack.home / "notes.txt").read_text() == (attack.data / "journal.db").read_text() == SECRET
    assert not (attack.workspace / "hard").exists()


@pytest.mark.requirement("R7")
def test_there_is_no_way_to_the_network_or_to_local_services(attack: Attack):
    abstract = "\0" + f"turnbuckle-{os.getpid()}-{attack.mechanism}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(abstract)
        local.listen()
        port = tcp.getsockname()[1]
        said = attack.python(
            *tried(
                f"socket.create_connection(('127.0.0.1', {port}), 5)",
                f"socket.create_connection(('localhost', {port}), 5)",
                "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
                "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 53))",
                f"socket.socket(socket.AF_UNIX).connect({abstract!r})",
                "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
                "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
                "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
                "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)",
                "socket.socket(38, socket.SOCK_SEQPACKET)",
            )
        )
        tcp.setblocking(False)
        local.setblocking(False)
        for listening in (tcp, local):
            with pytest.raises(BlockingIOError):
                listening.accept()
    assert all_refused(said, 10), said


@pytest.mark.requirement("R7")
def test_a_path_of_a_local_service_leads_nowhere(attack: Attack):
    place = attack.home / "service"
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(os.fspath(place) if len(os.fspath(place)) < 100 else os.path.relpath(place))
        service.listen()
        asked = f"os.chdir({str(attack.home)!r}); socket.socket(socket.AF_UNIX).connect('service')"
        direct = f"socket.socket(socket.AF_UNIX).connect({str(place)!r})"
        said = attack.python(*tried(asked, direct))
    assert all_refused(said, 2), said


@pytest.mark.requirement("R7")
def test_processes_outside_are_not_seen_traced_or_ended(attack: Attack):
    assert attack.holds_signals
    me = os.getpid()
    with victim() as outside:
        pid = outside.pid
        said = attack.python(
            *tried(
                *(f"os.kill({one}, 0)" for one in (pid, me)),
                f"os.kill({pid}, 9)",
                f"must(libc.ptrace(16, {pid}, 0, 0))",
                f"must(libc.ptrace(0x4206, {pid}, 0, 0))",
                f"open('/proc/{pid}/environ').read()",
                f"open('/proc/{pid}/mem', 'r+b')",
                f"open('/proc/{pid}/maps').read()",
                f"os.listdir('/proc/{pid}/root/')",
                f"os.listdir('/proc/{pid}/cwd/')",
                f"os.readlink('/proc/{pid}/fd/0')",
                f"open('/proc/{pid}/oom_score_adj', 'w').write('1000')",
            )
        )
        assert outside.poll() is None
    assert all_refused(said, 12), said


@pytest.mark.requirement("R7")
def test_a_command_cannot_end_its_guard_or_what_holds_it(attack: Attack):
    assert attack.holds_signals  # else the next line would end everything that this user runs
    outcome = attack.do("kill -9 $PPID; kill -9 1; kill -9 -1; echo still here")
    assert outcome.survivors == ()
    assert "Its guard was killed" not in outcome.text


@pytest.mark.requirement("R7")
def test_the_kernel_is_asked_for_nothing_that_leads_out(attack: Attack):
    said = attack.python(
        *tried(
            "must(libc.unshare(0x10000000))",
            "must(libc.unshare(0x00020000))",
            "must(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
            "must(libc.umount2(b'/proc', 2))",
            "must(libc.chroot(b'.'))",
            "must(libc.syscall(250, 0, -3, 0))"
            if os.uname().machine == "x86_64"
            else "must(libc.syscall(219))",
            "must(libc.syscall(321 if os.uname().machine == 'x86_64' else 280, 0, 0, 0))",
            "must(libc.syscall(323 if os.uname().machine == 'x86_64' else 282, 0))",
            "must(libc.syscall(425, 8, 0))",
            "must(libc.syscall(308 if os.uname().machine == 'x86_64' else 268, 0, 0))",
            "must(libc.syscall(304 if os.uname().machine == 'x86_64' else 265, -1, 0, 0))",
            "os.mknod('device', 0o600 | 0o020000, os.makedev(1, 1))",
            "os.setuid(12345)" if os.getuid() == 0 else "os.setuid(0)",
            "open('/proc/sys/kernel/hostname', 'w').write('mine')",
            "open('/proc/sysrq-trigger', 'w').write('h')",
            "open('/dev/mem', 'rb')",
            "open('/sys/kernel/uevent_helper', 'w').write('/bin/sh')",
        )
    )
    assert all_refused(said, 17), said


@pytest.mark.requirement("R7")
def test_bits_that_lend_rights_lend_none(attack: Attack):
    said = attack.says("grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status | tr -d '\\t'")
    assert "NoNewPrivs:1" in said
    assert "CapEff:0000000000000000" in said
    if os.getuid() == 0:
        assert "CapBnd:0000000000000000" in said


@pytest.mark.requirement("R7")
def test_variables_with_secrets_or_ways_to_services_are_not_there(attack: Attack):
    attack.environment |= {"OPENAI_API_KEY": SECRET, "DBUS_SESSION_BUS_ADDRESS": "unix:x", "PLAIN": "1"}
    said = attack.says("env")
    assert "PLAIN=1" in said
    assert not any(
        word in said for word in (SECRET, "SSH_AUTH_SOCK", "DBUS_SESSION", str(attack.home / ".ssh"))
    )


@pytest.mark.requirement("R7")
def test_a_family_that_grows_too_large_is_ended_whole(tmp_path: Path, attack: Attack):
    attack.rules["processes"] = 60
    outcome = attack.do("echo begun; while :; do sleep 300 & done 2>/dev/null", timeout=100)
    assert outcome.status in ("killed", "failed"), outcome
    if outcome.status == "killed":
        assert "more than 60 processes" in outcome.text
    assert outcome.survivors == ()
    assert attack.says("echo alive") == "alive\n"


@pytest.mark.requirement("R7")
def test_a_bomb_of_forks_goes_off_in_its_place(tmp_path: Path):
    attack = Attack(tmp_path, "bubblewrap", processes=100)
    # It would stop by itself at some thousands: where the sandbox does not hold, the machine must.
    bomb = "bomb() { test $1 = 0 || { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 300; }; bomb 10"
    outcome = attack.do(bomb, timeout=100)
    assert outcome.status == "killed" or os.getuid(), outcome
    assert len(outcome.killed) <= 50
    assert outcome.survivors == ()
    assert attack.says("echo alive") == "alive\n"


@pytest.mark.requirement("R7")
def test_memory_and_files_have_an_end(attack: Attack):
    attack.rules |= {"memory": 200 << 20, "file_size": 1 << 20}
    said = attack.python(
        *tried("bytearray(400 << 20)", "open('large', 'wb').write(bytes(2 << 20))", "bytearray(1 << 20)")
    )
    assert said.split()[:1] == ["refused"]
    assert "refused" in said or (attack.workspace / "large").stat().st_size <= 1 << 20
    assert (attack.workspace / "large").stat().st_size <= 1 << 20


@pytest.mark.requirement("R7")
def test_a_family_that_takes_too_much_memory_together_is_ended(attack: Attack):
    attack.rules["memory"] = 150 << 20
    (attack.workspace / "eat.py").write_text(
        "data = bytearray(b'x' * (60 << 20))\nimport signal\nsignal.pause()"
    )
    one = f"{sys.executable} -I -S eat.py"
    outcome = attack.do(f"{one} & {one} & {one} & {one} & wait", timeout=100)
    assert (outcome.status, outcome.survivors) == ("killed", ())
    assert "more than 150 MB of memory" in outcome.text


@pytest.mark.requirement("R7")
def test_what_a_command_leaves_running_is_named_and_ended(attack: Attack):
    outcome = attack.do("setsid sleep 300 & (sleep 301 &) ; echo done")
    assert (outcome.status, outcome.text, outcome.exit_code) == ("finished", "done\n", 0)
    for name in ("sleep 300", "sleep 301"):
        assert any(name in one for one in outcome.killed)
    assert outcome.survivors == ()
