"""What a store remembers of its troubles, and what ends them."""

import pytest

from turnbuckle.journal.port import Damaged, StorageAway, StorageFull
from turnbuckle.journal.trouble import TroubleBook

AWAY, FULL, DAMAGE = StorageAway("away"), StorageFull("full"), Damaged("", None, "damaged")


@pytest.mark.requirement("K6", "E10")
@pytest.mark.parametrize(
    "deeds, told",
    [
        ((), None),
        ((("unread", AWAY),), "away"),
        ((("unread", AWAY), ("read",)), None),  # whoever only reads knows by that alone that all is well
        ((("unread", AWAY), ("stored",)), None),
        ((("failed", FULL), ("read",)), "full"),  # a full disk can be read
        ((("failed", FULL), ("stored",)), None),
        ((("unread", AWAY), ("failed", FULL)), "full"),
        ((("unread", DAMAGE), ("read",), ("stored",)), "damaged"),
        ((("failed", FULL), ("unread", DAMAGE)), "full"),
    ],
)
def test_a_trouble_is_told_until_the_same_works_again_and_damage_for_good(deeds, told):
    book = TroubleBook(lambda: 1.0)
    for name, *given in deeds:
        getattr(book, name)(*given)
    assert (None if book.trouble is None else book.trouble.fault) == told
