"""The process that reads a page: bytes in some charset, perhaps HTML, to text.

The scanner takes each character once. Whatever never closes (a tag, a comment, a script) ends the page, as in
a browser; so there is nothing that it would have to try again from another place, and a hostile page costs as
much as any other of its length. It builds no tree: that is what cannot be done in linear time.
It needs only the standard library.
"""

import contextlib
import html
import json
import re
import resource
import sys

_WESTERN = "latin_1 iso8859_15 cp1252 iso8859_2 cp1250 iso8859_3 iso8859_4 iso8859_13 cp1257 iso8859_9 cp1254"
_OTHERS = "iso8859_5 cp1251 koi8_r koi8_u iso8859_7 cp1253 iso8859_8 cp1255 iso8859_6 cp1256 cp1258 cp874"
_EASTERN = "shift_jis cp932 euc_jp iso2022_jp gb2312 gbk gb18030 big5 big5hkscs euc_kr cp949"
_UNICODE = "utf_8 utf_16 utf_16_le utf_16_be"
CHARSETS = frozenset(f"{_UNICODE} {_WESTERN} {_OTHERS} {_EASTERN}".split())
"""What a page may be written in. Python knows codecs besides that unpack, or that take quadratic time."""
_ALIASES = {
    "utf8": "utf_8",
    "latin1": "latin_1",
    "iso_8859_1": "cp1252",  # as every browser reads it
    "ascii": "cp1252",
    "us_ascii": "cp1252",
    "x_sjis": "shift_jis",
    "sjis": "shift_jis",
    "windows_31j": "cp932",
    "x_gbk": "gbk",
    "ks_c_5601_1987": "cp949",
    "utf16": "utf_16",
    "utf_16le": "utf_16_le",
    "utf_16be": "utf_16_be",
}

_TAG = re.compile(
    r"</?([a-zA-Z][^\s/>]*+)"  # the name, then attributes with or without quotes
    r"(?:[^=>]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\s>]*+))*+>"
)
_HUGE_NUMBER = re.compile(r"&#(?:\d{8,}+|[xX][0-9a-fA-F]{7,}+);?")
_UNSEEN = frozenset("script style noscript template svg iframe noembed noframes".split())
_RAW = frozenset("script style textarea title xmp iframe noembed noframes noscript".split())
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main"
    " nav ol option p pre section table td th title tr ul".split()
)


def decoded(body: bytes, charset: str) -> str:
    """The text in its charset, or in UTF-8 if that is not one of the list."""
    name = re.sub(r"[^a-z0-9]+", "_", charset.strip().lower())
    name = _ALIASES.get(name, name)
    for spelled in (name, name.replace("windows_", "cp"), name.replace("iso_", "iso")):
        if spelled in CHARSETS:
            return body.decode(spelled, "replace")
    return body.decode("utf-8", "replace")


def text_of_html(page: str) -> str:
    """The words of a page, a line for each block, without the tags."""
    text = _HUGE_NUMBER.sub("\N{REPLACEMENT CHARACTER}", "".join(_PageScanner(page).pieces()))
    lines = (" ".join(line.split()) for line in html.unescape(text).split("\n"))
    return "\n".join(line for line in lines if line)


class _PageScanner:
    def __init__(self, page: str) -> None:
        self._page = page
        self._lower = page.lower() if page.isascii() else page.translate(_ASCII_LOWER)
        self._unseen = 0
        self._found: list[str] = []

    def pieces(self) -> list[str]:
        page, at = self._page, 0
        while at < len(page):
            mark = page.find("<", at)
            if mark < 0:
                mark = len(page)
            self._text(at, mark)
            at = self._past_markup(mark) if mark < len(page) else mark
        return self._found

    def _text(self, start: int, end: int) -> None:
        if start < end and not self._unseen:
            self._found.append(self._page[start:end])

    def _past_markup(self, at: int) -> int:
        """Where the text goes on behind what begins at `at`; the end of the page if it never closes."""
        page = self._page
        if page.startswith("<!--", at):
            return self._behind("-->", at + 4)
        following = page[at + 1 : at + 2]
        if following in ("!", "?") or (following == "/" and not page[at + 2 : at + 3].isalpha()):
            return self._behind(">", at + 2)
        if following != "/" and not (following.isascii() and following.isalpha()):
            self._text(at, at + 1)
            return at + 1
        tag = _TAG.match(page, at)
        if tag is None:
            return len(page)
        return self._past_tag(tag[1].lower(), tag.end(), closing=following == "/")

    def _past_tag(self, name: str, at: int, *, closing: bool) -> int:
        if name in _BLOCKS:
            self._found.append("\n")
        if closing:
            self._unseen = max(0, self._unseen - 1) if name in _UNSEEN else self._unseen
            return at
        if name not in _RAW:
            self._unseen += name in _UNSEEN
            return at
        end = self._end_of_raw(name, at)
        if name not in _UNSEEN:
            self._text(at, end)
        return end

    def _end_of_raw(self, name: str, at: int) -> int:
        """Where the closing tag of an element begins, inside of which there is no markup."""
        wanted = f"</{name}"
        while (at := self._lower.find(wanted, at)) >= 0:
            if self._lower[at + len(wanted) : at + len(wanted) + 1] in (*" \t\n\r\f/>", ""):
                return at
            at += len(wanted)
        return len(self._page)

    def _behind(self, end: str, at: int) -> int:
        found = self._page.find(end, at)
        return len(self._page) if found < 0 else found + len(end)


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def main() -> None:
    wish = json.loads(sys.stdin.buffer.readline())
    resource.setrlimit(resource.RLIMIT_CPU, (wish["seconds"], wish["seconds"] + 1))
    with contextlib.suppress(ValueError, OSError):  # some systems cannot limit memory in this way
        resource.setrlimit(resource.RLIMIT_AS, (wish["memory"], wish["memory"]))
    text = decoded(sys.stdin.buffer.read(wish["largest"]), wish["charset"])
    if wish["is_html"]:
        text = text_of_html(text)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
