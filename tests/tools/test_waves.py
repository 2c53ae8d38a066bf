"""Which calls may run together."""

import pytest

from turnbuckle.reply.verdict import SoundCall
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.waves import waves

REGISTRY = Registry(BUILT_IN)
READ_A, READ_B = ("read_file", "a"), ("read_file", "b")
WRITE_A, WRITE_B, WRITE_A_AGAIN = ("write_file", "a"), ("write_file", "b"), ("write_file", "./x/../a")
SHELL, SEARCH, NOBODY = ("shell", "x"), ("search_files", "x"), ("nobody", "x")


@pytest.mark.requirement("D6")
@pytest.mark.parametrize(
    "names, sizes",
    [
        ([], []),
        ([READ_A, READ_B, SEARCH, READ_A], [4]),
        ([WRITE_A, WRITE_B, READ_B], [2, 1]),
        ([WRITE_A, WRITE_A_AGAIN], [1, 1]),
        ([READ_A, WRITE_A, READ_A], [1, 1, 1]),
        ([SHELL, SHELL], [1, 1]),
        ([READ_A, SHELL, READ_A, READ_B], [1, 1, 2]),
        ([SEARCH, WRITE_A], [1, 1]),
        ([WRITE_A, NOBODY, WRITE_B], [3]),
    ],
)
def test_calls_that_are_in_nobodys_way_share_a_wave(names: list[tuple[str, str]], sizes: list[int]):
    calls = [SoundCall(f"c{number}", name, {"path": path}) for number, (name, path) in enumerate(names)]
    found = waves(calls, REGISTRY)
    assert [len(wave) for wave in found] == sizes
    assert [call for wave in found for call in wave] == calls
