"""Pictures and files as clients send them: by address, by id, or inside the request as a `data:` address.

What is inside the request becomes base64 with its media type, which every protocol can write in its own way.
Other schemes than http are refused: the address goes to a provider, and one that runs on this machine may
read its files.
"""

import base64
from urllib.parse import unquote_to_bytes

from turnbuckle.vocab.messages import FilePart, ImagePart
from turnbuckle.wire.fields import Fields, Refused

_SCHEMES = ("https://", "http://")
_LONGEST_ADDRESS = (
    16_384  # twice what common servers take; longer ones are content that was put into the wrong place
)
_TYPES = {
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "htm": "text/html",
    "html": "text/html",
    "json": "application/json",
    "xml": "application/xml",
}


def picture(fields: Fields, name: str, detail: str | None) -> ImagePart:
    """The picture whose address stands in a field. A detail of `auto` is the same as none."""
    address = fields.need_text(name)
    shown = "" if detail in (None, "auto") else str(detail)
    inside = _inside(fields, name, address)
    if inside is None:
        return ImagePart(url=_address(fields, name, address), detail=shown)
    media_type, data = inside
    return ImagePart(data=data, media_type=media_type, detail=shown)


def document(fields: Fields, *, url: str = "") -> FilePart:
    """The file of which these fields tell; `url` is the field for an address, where the protocol has one."""
    ways = [way for way in ("file_id", "file_data", url) if way and fields.has(way)]
    if len(ways) != 1:
        known = ", ".join(way for way in ("file_id", "file_data", url) if way)
        raise Refused(fields.path, f"{fields.path} needs exactly one of {known}.")
    (way,) = ways
    given = fields.need_text(way)
    name = fields.text("filename") or ""
    if way == "file_id":
        return FilePart(name=name, file_id=given)
    if way == url:
        return FilePart(name=name, url=_address(fields, way, given))
    inside = _inside(fields, way, given)
    if inside is None:
        return FilePart(name=name, data=given, media_type=_TYPES.get(name.rpartition(".")[2].lower(), ""))
    media_type, data = inside
    return FilePart(name=name, data=data, media_type=media_type)


def _inside(fields: Fields, name: str, address: str) -> tuple[str, str] | None:
    """The media type and the base64 of a `data:` address; None if it is none."""
    if address[:5].lower() != "data:":
        return None
    comma = address.find(",")
    if comma < 0 or comma + 1 == len(address):
        raise fields.refused(name, "is a data: address without data behind a comma.")
    media_type, *options = (option.strip() for option in address[5:comma].split(";"))
    data = address[comma + 1 :]
    if not options or options[-1].lower() != "base64":
        return media_type, base64.b64encode(unquote_to_bytes(data)).decode("ascii")
    return media_type, unquote_to_bytes(data).decode("utf-8", "replace") if "%" in data else data


def _address(fields: Fields, name: str, address: str) -> str:
    if not address.lower().startswith(_SCHEMES):
        raise fields.refused(name, "must begin with http://, https:// or data:.")
    if len(address) > _LONGEST_ADDRESS:
        what = f"is longer than {_LONGEST_ADDRESS:,} characters; send content as a data: address."
        raise fields.refused(name, what, "string_above_max_length")
    return address
