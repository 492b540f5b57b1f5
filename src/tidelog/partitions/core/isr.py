"""What the controller's refusals of a change of the in-sync set mean for the leader that asked for it. Pure."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode

REFUSED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller did not do it and never will: the set stays as it was."""

SUPERSEDED: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""The controller knows something newer about the partition, which the metadata will bring; asking again is no use.
Every other error is one of the way to the controller: the same change is sent again."""
