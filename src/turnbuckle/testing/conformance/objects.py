"""What every store of objects must do. `store` is empty, and `folder` is one to put files into."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from turnbuckle.objects.port import ObjectMissing, ObjectStore, ObjectStoreError, object_key, prefix_of

Case = Callable[[ObjectStore, Path], Awaitable[None]]

STRANGE = ("undo:run 1", "ü/..", "..", ".", "a%2Fb", "=41", "A" * 200, "a.b_c-d")
"""Names of streams that are no names of files."""


async def keys_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted([row.key async for row in store.listed(prefix)])


async def what_was_put_is_read_as_it_was(store: ObjectStore, folder: Path) -> None:
    for data in (b"", b"\x00\xff" * 700, bytes(300_000)):
        await store.put("run1/items/a", data)
        assert await store.get("run1/items/a", len(data)) == data


async def a_file_is_put_and_read_as_it_was(store: ObjectStore, folder: Path) -> None:
    source, target = folder / "source", folder / "target"
    source.write_bytes(b"\x00line\r\n" * 9000)
    target.write_bytes(b"old")
    await store.put_file("run1/kept/shell.txt", source)
    await store.get_file("run1/kept/shell.txt", target)
    assert target.read_bytes() == source.read_bytes()
    assert sorted(file.name for file in folder.iterdir()) == ["source", "target"]


async def what_is_missing_is_told_as_that(store: ObjectStore, folder: Path) -> None:
    for work in (
        lambda: store.get("run1/items/none", 10),
        lambda: store.get_file("run1/items/none", folder / "x"),
    ):
        assert isinstance(await fault_of(work()), ObjectMissing)
    assert list(folder.iterdir()) == []


async def more_than_was_expected_is_refused(store: ObjectStore, folder: Path) -> None:
    await store.put("run1/items/a", b"12345")
    fault = await fault_of(store.get("run1/items/a", 4))
    assert fault is not None
    assert not isinstance(fault, ObjectMissing)


async def a_list_has_what_is_below_a_prefix(store: ObjectStore, folder: Path) -> None:
    assert await keys_of(store) == []
    for key in ("run1/items/a", "run1/kept/b", "run12/items/c"):
        await store.put(key, b"123")
    assert await keys_of(store) == ["run1/items/a", "run1/kept/b", "run12/items/c"]
    assert await keys_of(store, prefix_of("run1")) == ["run1/items/a", "run1/kept/b"]
    assert await keys_of(store, prefix_of("none")) == []
    assert {row.size async for row in store.listed()} == {3}


async def what_is_deleted_is_gone_and_may_be_missing(store: ObjectStore, folder: Path) -> None:
    for key in ("run1/items/a", "run1/items/b", "run2/items/a"):
        await store.put(key, b"1")
    await store.delete(["run1/items/a", "run1/items/none", "run1/items/b"])
    await store.delete(["run1/items/a"])
    await store.delete([])
    assert await keys_of(store) == ["run2/items/a"]
    await store.put("run1/items/a", b"again")
    assert await store.get("run1/items/a", 5) == b"again"


async def every_stream_has_a_place_of_its_own(store: ObjectStore, folder: Path) -> None:
    for stream in STRANGE:
        await store.put(object_key(stream, "items", "a"), stream.encode())
    for stream in STRANGE:
        assert await keys_of(store, prefix_of(stream)) == [object_key(stream, "items", "a")]
        assert await store.get(object_key(stream, "items", "a"), 500) == stream.encode()


async def fault_of(work: Awaitable[object]) -> ObjectStoreError | None:
    """What a work fails with."""
    try:
        await work
    except ObjectStoreError as error:
        return error
    return None


CASES: tuple[Case, ...] = (
    what_was_put_is_read_as_it_was,
    a_file_is_put_and_read_as_it_was,
    what_is_missing_is_told_as_that,
    more_than_was_expected_is_refused,
    a_list_has_what_is_below_a_prefix,
    what_is_deleted_is_gone_and_may_be_missing,
    every_stream_has_a_place_of_its_own,
)
