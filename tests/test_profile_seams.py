"""The profile wraps functions by their names. A name that is no longer there would stop it."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

PARTS = Path(__file__).parents[1] / "benchmarks" / "serving" / "parts.py"


def seams() -> list[str]:
    spec = importlib.util.spec_from_file_location("profile_parts", PARTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        return [place for places in module.SEAMS.values() for place in places]
    finally:
        del sys.modules[spec.name]


@pytest.mark.parametrize("place", seams())
def test_every_seam_of_the_profile_is_a_method_of_its_class(place: str) -> None:
    module, _, name = place.partition(":")
    owner, _, method = name.partition(".")
    assert callable(getattr(getattr(importlib.import_module(module), owner), method))
