"""What `turnbuckle doctor` says of the object store."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.objects.s3_server import failing, new_bucket, store_at

from turnbuckle.cli.doctor.objects import check_objects
from turnbuckle.objects.settings import ObjectSettings, S3Address
from turnbuckle.testing.conformance.objects import keys_of

SECRET = "a-secret-that-nobody-may-see"


def settings_of(address: S3Address) -> ObjectSettings:
    return ObjectSettings(
        store=f"s3://{address.bucket}",
        endpoint=address.endpoint,
        region=address.region,
        access_key="env:ID",
        secret_key="env:SECRET",
        timeout=90,
    )


def found(settings: ObjectSettings):
    return asyncio.run(asyncio.wait_for(check_objects(settings, {"ID": "id", "SECRET": SECRET}), 100))


@pytest.mark.requirement("K8")
def test_a_bucket_that_works_is_tried_and_left_as_it_was():
    address = new_bucket()
    asyncio.run(store_at(address).put("run1/items/a", bytes(2_000_000)))
    [finding] = found(settings_of(address))
    assert finding.level == "ok"
    assert finding.what.endswith("stores, lists and deletes; it has 1 objects, 2.0 MB")
    assert asyncio.run(keys_of(store_at(address))) == ["run1/items/a"]


@pytest.mark.requirement("K8", "R3")
def test_a_bucket_that_refuses_the_key_is_told_without_the_key():
    with failing(403, "InvalidAccessKeyId") as endpoint:
        [finding] = found(settings_of(replace(new_bucket(), endpoint=endpoint)))
    assert finding.level == "wrong"
    assert "InvalidAccessKeyId" in finding.what
    assert "list and delete" in finding.fix
    assert SECRET not in finding.what + finding.fix


def test_a_share_that_is_not_there_is_told(tmp_path: Path):
    [finding] = found(ObjectSettings(store=str(tmp_path / "share")))
    assert finding.level == "wrong"
    assert "is not there" in finding.what
    assert found(ObjectSettings()) == ()
    [finding] = found(ObjectSettings(store="gs://x"))
    assert "neither a folder nor s3" in finding.what
