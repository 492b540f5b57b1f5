"""Feature levels: how one changes for the whole cluster, and which records the levels allow to be written.

A level changes at one point of the metadata log, and only to one that every registered broker supports. A broker
registers only if it supports the levels there are. So every member can replay what the levels allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.controller.core.decision import Decision
from tidelog.metadata import table
from tidelog.metadata.features import METADATA_VERSION, ONE_WAY, SUPPORTED, TIDELOG_VERSION
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.message import Message

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    upgrade_type: int = UPGRADE


def decide_update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
) -> Decision[None]:
    """All or nothing; raises the first reason why not."""
    records: list[Message] = []
    for update in updates:
        current = image.features.get(update.name, 0)
        _check(image, update, current)
        if update.level != current:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return Decision([] if validate_only else records, None)


def _check(image: MetadataImage, update: FeatureUpdate, current: int) -> None:
    name, level = update.name, update.level
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. The controller does not support the given upgrade "
            "type.",
        )
    low, high = SUPPORTED.get(name, (0, 0))
    if name not in SUPPORTED or not (low <= level <= high or (level == 0 and name != METADATA_VERSION)):
        known = f"supports versions {low}-{high}" if name in SUPPORTED else "does not support this feature"
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. Local controller {image.controller_id} {known}.",
        )
    for broker in image.brokers.values():
        lowest, highest = next(((a, b) for n, a, b in broker.features if n == name), (0, 0))
        if level and not lowest <= level <= highest:
            raise BrokerError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {level} for feature {name}. Broker {broker.node_id} supports versions "
                f"{lowest}-{highest}.",
            )
    if level < current and update.upgrade_type == UPGRADE:
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature without "
            "setting the upgrade type to either safe or unsafe downgrade.",
        )
    if level < current and name in ONE_WAY:
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. Records of this version may already be written; a "
            "downgrade is not supported.",
        )


def require_allowed(image: MetadataImage, records: Sequence[Message]) -> None:
    """UNSUPPORTED_VERSION when a member may be unable to replay one of these records."""
    if not table.LEVELS:
        return
    current = image.features.get(TIDELOG_VERSION, 0)
    for record in records:
        needed = table.LEVELS.get(type(record), 0)
        if needed > current:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"This needs {TIDELOG_VERSION} {needed}, and the cluster is at {current}. Upgrade every node, then run "
                "`tidelog cluster upgrade`.",
            )
