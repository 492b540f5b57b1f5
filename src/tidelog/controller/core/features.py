"""UpdateFeatures: a level changes for the whole cluster, at one point of the metadata log, if every node can do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.controller.core.decision import Decision
from tidelog.metadata.features import METADATA_VERSION, SUPPORTED
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
    if level < current and name == METADATA_VERSION:
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. Records of this version may already be written; a "
            "downgrade is not supported.",
        )
