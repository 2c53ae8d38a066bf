"""Which system calls a command may make, as a program for the kernel's filter (classic BPF). Pure; standard
library only.

Everything is allowed but what reaches past files and processes of its own: mounts and namespaces, kernel
modules, keys, tracing of the kernel, the clock, asynchronous rings that would go round this very filter, and
sockets of families that the place does not give. What is refused gets an error, so programs can go on and
say so. Calls of another architecture than this one are unknown calls.
"""

import struct
from typing import NamedTuple

SOCK_DGRAM = 2
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_LOAD, _JUMP_EQUAL, _JUMP_FROM, _JUMP_ANY, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4
_X32 = 0x40000000  # calls of a second numbering on x86_64
_NEW_NAMESPACES = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX put words into somebody's mouth
_O_TRUNC, _O_ACCMODE = 0o1000, 0o3

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED = {
    # name: (x86_64, aarch64)
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "vhangup": (153, 58),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "pidfd_getfd": (438, 438),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_UNKNOWN = {
    # A caller who is told that these are not there has another way.
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_JUDGED = {
    "clone": (56, 220),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "truncate": (76, 45),
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
}
MACHINES = tuple(_AUDIT)


class _Step(NamedTuple):
    code: int
    value: int
    if_so: int = 0
    if_not: int = 0


def families(*, network: bool, own_network: bool) -> frozenset[int]:
    """The families of sockets that a command may open. With a network of its own, which leads nowhere, it
    may have plain ones. In the network of the machine it may not speak to local services by their sockets'
    names, some of which lie in no folder."""
    if own_network and not network:
        return frozenset({AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    return frozenset({AF_INET, AF_INET6, AF_NETLINK}) if network else frozenset()


def program(machine: str, sockets: frozenset[int], *, judge_truncation: bool = False) -> bytes:
    """The filter. `judge_truncation` is for kernels on which Landlock does not see that a file is emptied:
    nothing that is opened to be read may be."""
    column = MACHINES.index(machine)
    steps = [
        _Step(_LOAD, _ARCHITECTURE),
        _Step(_JUMP_EQUAL, _AUDIT[machine], 1, 0),
        _Step(_RETURN, _ERROR | _ENOSYS),
        _Step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_Step(_JUMP_FROM, _X32, 0, 1), _Step(_RETURN, _ERROR | _ENOSYS)]
    for error, table in ((_EPERM, _REFUSED), (_ENOSYS, _UNKNOWN)):
        for numbers in table.values():
            steps += _when(numbers[column], [_Step(_RETURN, _ERROR | error)])
    number = {name: numbers[column] for name, numbers in _JUDGED.items()}
    steps += _when(number["clone"], [_argument(0), *_refuse_any(_NEW_NAMESPACES), _Step(_RETURN, _ALLOW)])
    steps += _when(number["socket"], _sockets(sockets))
    if AF_UNIX not in sockets:
        # A pair that is bound to each other speaks to nobody else, unless it is one of single messages.
        pair = [_argument(1), _Step(_AND, 0xF), _Step(_JUMP_EQUAL, SOCK_DGRAM, 0, 1)]
        steps += _when(
            number["socketpair"], [*pair, _Step(_RETURN, _ERROR | _EACCES), _Step(_RETURN, _ALLOW)]
        )
    typed = [
        step
        for wish in _TERMINAL_INPUT
        for step in (_Step(_JUMP_EQUAL, wish, 0, 1), _Step(_RETURN, _ERROR | _EPERM))
    ]
    steps += _when(number["ioctl"], [_argument(1), *typed, _Step(_RETURN, _ALLOW)])
    if judge_truncation:
        steps += _when(number["truncate"], [_Step(_RETURN, _ERROR | _EPERM)])
        steps += _when(number["openat2"], [_Step(_RETURN, _ERROR | _ENOSYS)])
        steps += _when(number["open"], _emptied(1))
        steps += _when(number["openat"], _emptied(2))
    steps.append(_Step(_RETURN, _ALLOW))
    return b"".join(struct.pack("<HBBI", step.code, step.if_so, step.if_not, step.value) for step in steps)


def _when(number: int | None, block: list[_Step]) -> list[_Step]:
    """These steps for this call alone. They end it, so what is loaded there is nobody else's."""
    return [] if number is None else [_Step(_JUMP_EQUAL, number, 0, len(block)), *block]


def _argument(place: int) -> _Step:
    return _Step(_LOAD, 16 + 8 * place)  # its lower half, on machines that write that half first


def _refuse_any(bits: int) -> list[_Step]:
    return [_Step(_JUMP_ANY, bits, 0, 1), _Step(_RETURN, _ERROR | _EPERM)]


def _sockets(allowed: frozenset[int]) -> list[_Step]:
    steps = [_argument(0)]
    for family in sorted(allowed - {AF_NETLINK}):
        steps += [_Step(_JUMP_EQUAL, family, 0, 1), _Step(_RETURN, _ALLOW)]
    if AF_NETLINK in allowed:  # to ask for addresses, and for nothing else
        steps += [
            _Step(_JUMP_EQUAL, AF_NETLINK, 0, 3),
            _argument(2),
            _Step(_JUMP_EQUAL, 0, 0, 1),
            _Step(_RETURN, _ALLOW),
        ]
    return [*steps, _Step(_RETURN, _ERROR | _EACCES)]


def _emptied(place: int) -> list[_Step]:
    return [
        _argument(place),
        _Step(_JUMP_ANY, _O_TRUNC, 1, 0),
        _Step(_RETURN, _ALLOW),
        _Step(_AND, _O_ACCMODE),
        _Step(_JUMP_EQUAL, 0, 0, 1),
        _Step(_RETURN, _ERROR | _EPERM),
        _Step(_RETURN, _ALLOW),
    ]
