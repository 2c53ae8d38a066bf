"""Ids that the program makes."""

import pytest

from turnbuckle.runtime.new_names import new_name
from turnbuckle.service.owners import run_id


@pytest.mark.requirement("F6")
def test_ids_that_are_made_in_one_moment_are_all_different():
    """With 24 random bits a crowd of 200 met a collision; so many names would have had some seventy."""
    names = [new_name("r") for _ in range(50_000)]
    assert len(set(names)) == len(names)
    assert all(run_id(name) == name for name in names[:100])
