"""The packages that are installed are those that were locked, and a hole that was closed stays closed."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "scripts"))

from package_audit import complaints, locked, main  # noqa: E402

PINS = {"aiohttp": "3.14.2", "rich": "15.0.0"}


def test_the_packages_are_as_they_were_locked():
    assert main() == 0


@pytest.mark.parametrize(
    "pins, wanted, installed, why",
    [
        (PINS, ["aiohttp>=3.14", "yarl"], {}, "yarl is not in requirements.lock"),
        (PINS, ["rich>=16"], {}, "rich 15.0.0 is locked"),
        (PINS, ["rich @ https://evil.example/rich.whl"], {}, "comes from an address"),
        ({"aiohttp": "3.14.0"}, [], {}, "at least 3.14.1 is needed"),
        (PINS, [], {"rich": "15.0.1"}, "rich 15.0.1 is installed"),
    ],
)
def test_what_is_wrong_with_a_package_is_told(pins, wanted, installed, why: str):
    assert why in " ".join(complaints(pins, wanted, installed))


@pytest.mark.parametrize(
    "line", ["rich", "rich>=15", "-e .", "--index-url x", "rich==15 ; x", "rich @ https://x"]
)
def test_a_lock_holds_nothing_but_pins(line: str):
    with pytest.raises(ValueError, match="no plain pin"):
        locked(line)
