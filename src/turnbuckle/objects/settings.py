"""What can be set of the store of objects."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

ENV = "env:"


class ObjectSettings(Struct, frozen=True):
    """Where large values and kept files go, so that every node can read them and the database stays small.
    See [scale](scale.md#where-files-are)."""

    store: Annotated[
        str,
        Meta(
            description=(
                "`s3://bucket` or `s3://bucket/prefix` of any S3-compatible store, or the path of a folder "
                "that all nodes share. Empty = large values stay in the journal, and files on the machine "
                "that made them."
            )
        ),
    ] = ""
    endpoint: Annotated[
        str,
        Meta(description="The address of the store: `http://localhost:9000`. Empty = AWS."),
    ] = ""
    region: Annotated[
        str, Meta(description="The region of the bucket. Empty = `AWS_REGION`, or `us-east-1`.")
    ] = ""
    access_key: Annotated[
        str,
        Meta(
            description=(
                "The id of the key, as `env:NAME`. Empty = what the machine has: `AWS_ACCESS_KEY_ID`, a role."
            )
        ),
    ] = ""
    secret_key: Annotated[str, Meta(description="The secret of the key, as `env:NAME`.")] = ""
    over: Annotated[
        int,
        Meta(
            ge=1024,
            description=(
                "Values of the journal with more bytes than this go to the store: attachments, long "
                "messages and results."
            ),
        ),
    ] = 262_144
    timeout: Annotated[
        float,
        Meta(
            gt=0,
            description=(
                "Seconds until an attempt to reach the store is given up; large objects get a second more "
                "per MB. A value that could not be stored there is kept in the journal."
            ),
        ),
    ] = 10.0


class S3Address(Struct, frozen=True):
    """A bucket, and who asks for it."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""
    session_token: str = ""

    @property
    def shown(self) -> str:
        at = f" at {urlsplit(self.endpoint).hostname}" if self.endpoint else ""
        return f"s3://{self.bucket}{'/' if self.prefix else ''}{self.prefix}{at}"


def s3_address(settings: ObjectSettings, environment: Mapping[str, str]) -> S3Address:
    """Raises ValueError for one that is none."""
    parts = urlsplit(settings.store)
    if not parts.hostname or parts.query or parts.fragment or parts.username or parts.port:
        raise ValueError(f"{settings.store!r} is not a bucket; write s3://bucket or s3://bucket/prefix")
    endpoint = settings.endpoint
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise ValueError(f"endpoint: {endpoint!r} is not an address; it begins with https://")
    if bool(settings.access_key) != bool(settings.secret_key):
        raise ValueError("access_key and secret_key belong together; give both, or neither")
    return S3Address(
        parts.netloc,
        parts.path.strip("/"),
        endpoint,
        settings.region,
        _value(settings.access_key, environment),
        _value(settings.secret_key, environment),
    )


def _value(written: str, environment: Mapping[str, str]) -> str:
    if not written.startswith(ENV):
        return written
    name = written.removeprefix(ENV)
    if not environment.get(name):
        raise ValueError(f"the environment has no variable {name}")
    return environment[name].strip()
