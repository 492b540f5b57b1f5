"""Records that every client can write and read, and how they are compared."""

from __future__ import annotations

from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sample(NamedTuple):
    """A record as a test sees it. Text, because two of the clients are command line tools."""

    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def key_bytes(self) -> bytes | None:
        return None if self.key is None else self.key.encode()

    @property
    def value_bytes(self) -> bytes | None:
        return None if self.value is None else self.value.encode()

    @property
    def header_list(self) -> list[tuple[str, bytes]]:
        return [(name, value.encode()) for name, value in self.headers]


def from_bytes(key: bytes | None, value: bytes | None, headers: object = ()) -> Sample:
    pairs = tuple((name, (content or b"").decode()) for name, content in headers or ())  # type: ignore[attr-defined]
    return Sample(None if key is None else key.decode(), None if value is None else value.decode(), pairs)


def samples(origin: str) -> list[Sample]:
    """Two dozen records of every shape; `origin` tells later who wrote them."""
    return [
        Sample("key", f"{origin} plain"),
        Sample(None, f"{origin} without a key"),
        Sample("tombstone", None),
        Sample("headers", f"{origin} with headers", (("content", "text"), ("trace", "abc"), ("trace", "def"))),
        Sample("umlauts", f"{origin} grüße 東京 🌊"),
        Sample("long", f"{origin} " + "compressible " * 1500),
        *[Sample(f"key-{number}", f"{origin} number {number}") for number in range(18)],
    ]
