"""The key of HTTP sessions: made once, when the first node with an HTTP door needs it."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.controller.core.decision import Decision
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.session_keys import LEVEL, SessionKeysImage
from tidelog.protocol.message import Message
from tidelog.protocol.private_records import SessionKeyRecord

KEY_BYTES = 32
"""As many as the hash has: a longer key adds nothing."""
FIRST_KEY_ID = 1
HTTP = "HTTP"
"""The endpoint that a node with an HTTP door registers."""


def needs_session_key(image: MetadataImage) -> bool:
    return (
        not image.part(SessionKeysImage).by_id
        and may_have_session_key(image)
        and any(broker.gateway(HTTP) is not None for broker in image.brokers.values())
    )


def may_have_session_key(image: MetadataImage) -> bool:
    """Whether every node can replay one."""
    return image.features.get(TIDELOG_VERSION, 0) >= LEVEL


def has_http_door(image: MetadataImage, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is not None and broker.gateway(HTTP) is not None


def decide_session_key(image: MetadataImage, random_bytes: Callable[[int], bytes]) -> Decision[bool]:
    """The reply says whether there is a new key."""
    records: list[Message] = []
    if needs_session_key(image):
        records.append(SessionKeyRecord(key_id=FIRST_KEY_ID, key=random_bytes(KEY_BYTES)))
    return Decision(records, bool(records))
