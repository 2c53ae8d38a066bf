"""Every store of objects does what the port says, and tells the truth about what it cannot do."""

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.objects.s3_server import failing, new_bucket, store_at

from turnbuckle.errors import ConfigError
from turnbuckle.journal.port import MAX_ITEM
from turnbuckle.objects.folder import FolderObjects
from turnbuckle.objects.memory import MemoryObjects
from turnbuckle.objects.opening import open_objects
from turnbuckle.objects.port import StoreAway, StoreFull, StoreRefused, area_of, object_key, stream_of
from turnbuckle.objects.s3 import client_seconds, seconds_for
from turnbuckle.objects.settings import ObjectSettings
from turnbuckle.objects.store_clock import CLOCK, time_of_store
from turnbuckle.settings import Settings, secrets_of
from turnbuckle.testing.conformance import objects

SECRET = "a-secret-that-nobody-may-see"


def memory(folder: Path):
    return MemoryObjects()


def in_folder(folder: Path):
    place = folder / "objects"
    place.mkdir()
    return FolderObjects(place, 60.0)


def s3(folder: Path):
    return store_at(new_bucket())


def s3_below_a_prefix(folder: Path):
    return store_at(replace(new_bucket(), prefix="some/prefix"))


def done(work):
    return asyncio.run(asyncio.wait_for(work, 100))


def fault_of(work):
    return done(objects.fault_of(work))


@pytest.mark.requirement("K8")
@pytest.mark.parametrize("case", objects.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("store_of", (memory, in_folder, s3, s3_below_a_prefix))
def test_every_store_keeps_the_promise(case, store_of, tmp_path: Path):
    files = tmp_path / "files"
    files.mkdir()

    async def put_through():
        store = store_of(tmp_path)
        try:
            await case(store, files)
            return True
        finally:
            await store.close()

    assert done(put_through())


@pytest.mark.parametrize("stream", objects.STRANGE)
def test_an_object_tells_whose_it_is(stream: str):
    key = object_key(stream, "kept", "shell-1.txt")
    assert (stream_of(key), area_of(key)) == (stream, "kept")


@pytest.mark.parametrize("key", ("", "x", "a/b", "a/b/c/d", "=zz/items/a"))
def test_what_others_put_into_a_bucket_is_nobodys(key: str):
    assert not stream_of(key) or not area_of(key)


def test_a_share_that_is_not_mounted_does_not_become_a_folder_of_this_machine(tmp_path: Path):
    store = FolderObjects(tmp_path / "share", 60.0)
    assert isinstance(fault_of(store.put("run1/items/a", b"1")), StoreAway)
    assert list(tmp_path.iterdir()) == []


def test_what_a_broken_upload_left_in_a_folder_is_no_object_and_is_tidied(tmp_path: Path):
    store = in_folder(tmp_path)
    done(store.put("run1/items/a", b"1"))
    left = tmp_path / "objects" / "run1" / "items" / ".pending-1"
    left.write_bytes(b"half")
    os.utime(left, (1000, 1000))
    assert done(objects.keys_of(store)) == ["run1/items/a"]
    done(store.tidy(2000))
    assert not left.exists()
    assert done(store.get("run1/items/a", 1)) == b"1"


@pytest.mark.requirement("K8", "R3")
@pytest.mark.parametrize(
    "status, code, kind",
    (
        (403, "SignatureDoesNotMatch", StoreRefused),
        (403, "InvalidAccessKeyId", StoreRefused),
        (401, "", StoreRefused),
        (404, "NoSuchBucket", StoreRefused),
        (507, "", StoreFull),
        (501, "NotImplemented", StoreAway),
    ),
)
def test_a_store_that_says_no_is_told_without_what_was_sent(status: int, code: str, kind: type):
    with failing(status, code) as endpoint:
        store = store_at(replace(new_bucket(), endpoint=endpoint))
        for work in (
            lambda: store.put("run1/items/a", b"1"),
            lambda: store.get("run1/items/a", 1),
            lambda: objects.keys_of(store),
        ):
            fault = fault_of(work())
            assert type(fault) is kind
            assert "127.0.0.1" in str(fault)
            assert SECRET not in str(fault)
            assert "Credential" not in str(fault)


def test_a_store_that_is_not_there_is_away():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    store = store_at(replace(new_bucket(), endpoint=f"http://127.0.0.1:{port}"))
    fault = fault_of(store.put("run1/items/a", b"1"))
    assert isinstance(fault, StoreAway)
    assert "it cannot be reached" in str(fault)


def test_a_store_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = replace(new_bucket(), endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        fault = fault_of(store_at(address, timeout=0.2).get("run1/items/a", 1))
    assert isinstance(fault, StoreAway)


@pytest.mark.parametrize(
    "settings, words",
    (
        (ObjectSettings(store="gs://x"), "neither a folder nor s3"),
        (ObjectSettings(store="s3://"), "is not a bucket"),
        (ObjectSettings(store="s3://user:pass@x"), "is not a bucket"),
        (ObjectSettings(store="s3://x", endpoint="minio:9000"), "begins with https"),
        (ObjectSettings(store="s3://x", access_key="env:A"), "belong together"),
        (ObjectSettings(store="s3://x", access_key="env:A", secret_key="env:B"), "no variable A"),
    ),
)
def test_settings_that_name_no_store_are_refused_in_words(settings: ObjectSettings, words: str):
    with pytest.raises(ConfigError, match=words):
        open_objects(settings, {})


def test_the_settings_name_a_folder_a_bucket_or_nothing(tmp_path: Path):
    assert open_objects(ObjectSettings(), {}) is None
    folder = open_objects(ObjectSettings(store=str(tmp_path)), {})
    assert folder is not None
    assert folder.shown == str(tmp_path)
    named = ObjectSettings(
        store="s3://b-1/x", endpoint="https://e.example", access_key="env:A", secret_key="env:B"
    )
    bucket = open_objects(named, {"A": "a", "B": SECRET})
    assert bucket is not None
    assert bucket.shown == "s3://b-1/x at e.example"


def test_a_share_that_hangs_holds_a_few_threads_and_no_more(tmp_path: Path):
    os.mkfifo(tmp_path / "hangs")  # whoever reads it waits for somebody who writes

    def held() -> int:
        return sum(thread.name == "objects" for thread in threading.enumerate())

    async def asked():
        store, before = FolderObjects(tmp_path, 0.02), held()
        faults = [await objects.fault_of(store.get("hangs", 1)) for _ in range(12)]
        holding = held() - before
        os.close(os.open(tmp_path / "hangs", os.O_RDWR | os.O_NONBLOCK))
        return faults, holding

    faults, holding = done(asked())
    assert all(type(fault) is StoreAway for fault in faults)
    assert holding <= 8


def test_a_password_in_the_address_of_a_store_is_a_secret():
    settings = Settings(objects=ObjectSettings(endpoint=f"https://me:{SECRET}@e.example", secret_key="plain"))
    assert secrets_of(settings, {}).values == {SECRET, "plain"}


def test_the_client_gives_a_large_object_as_long_as_it_may_take():
    assert client_seconds(2.0) >= seconds_for(MAX_ITEM, 2.0) > seconds_for(1, 2.0)


class _LookedAtByOthers(MemoryObjects):
    """Other nodes take away what they take for their own, some times."""

    def __init__(self, times: int) -> None:
        super().__init__(lambda: 1234.0)
        self.times = times

    async def put(self, key: str, data: bytes) -> None:
        await super().put(key, data)
        if self.times:
            self.times -= 1
            await self.delete([CLOCK])


@pytest.mark.requirement("K8")
def test_nodes_that_ask_a_store_for_its_time_at_the_same_moment_all_get_it():
    assert done(time_of_store(_LookedAtByOthers(2))) == 1234.0
    with pytest.raises(StoreAway, match="does not list"):
        done(time_of_store(_LookedAtByOthers(1000)))
