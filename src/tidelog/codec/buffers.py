"""The byte containers that every codec accepts without copying."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
