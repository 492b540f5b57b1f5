"""What is asked of every codec written by hand: that it judges any bytes as the generated one does."""

from __future__ import annotations

import random
from typing import Any

from tidelog.protocol.errors import MalformedMessage


def verdict(read: Any, frame: bytes, version: int) -> Any:
    try:
        return read(frame, version)
    except MalformedMessage:
        return "malformed"


def mutate(frame: bytes, chance: random.Random) -> bytes:
    """The frame with one to three places overwritten, cut off, stretched, or turned into a huge size."""
    mutant = bytearray(frame)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(mutant))
        match chance.randint(0, 3):
            case 0:
                mutant[at : at + 1] = bytes([chance.randint(0, 255)])
            case 1:
                del mutant[at:]
            case 2:
                mutant[at:at] = bytes(chance.choices([0, 1, 2, 0x7F, 0x80, 0xFF], k=chance.randint(1, 6)))
            case _:
                mutant[at : at + 4] = b"\xff\xff\xff\x7f"
    return bytes(mutant)
