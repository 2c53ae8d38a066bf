"""One place where the settings become a store of objects.

What S3 needs is imported only when it is named, since its client is an extra of the package.
"""

from collections.abc import Mapping
from pathlib import Path

from turnbuckle.errors import ConfigError
from turnbuckle.objects.folder import FolderObjects
from turnbuckle.objects.port import ObjectStore
from turnbuckle.objects.settings import ObjectSettings, s3_address

_SCHEME = "s3://"
_EXTRA = "objects.store names a bucket, and its client is not installed: pip install 'turnbuckle[s3]'"


def open_objects(settings: ObjectSettings, environment: Mapping[str, str]) -> ObjectStore | None:
    """The store of the settings; None if there is none. It is not asked for anything yet. Raises
    ConfigError."""
    if not settings.store:
        return None
    if not settings.store.startswith(_SCHEME):
        if "://" in settings.store:
            raise ConfigError(f"objects.store: {settings.store!r} is neither a folder nor s3://bucket")
        return FolderObjects(Path(settings.store), settings.timeout)
    try:
        address = s3_address(settings, environment)
        from turnbuckle.objects.s3 import S3Objects
    except ValueError as error:
        raise ConfigError(f"objects: {error}") from None
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise ConfigError(_EXTRA) from None
    return S3Objects(address, settings.timeout)
