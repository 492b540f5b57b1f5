"""UpdateFeatures: levels of features change for the whole cluster."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.features import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_VERSION_WITH_UPGRADE_TYPE = 1
LAST_VERSION_WITH_RESULTS = 1


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, _upgrade_type(context.version, update))
        for update in request.feature_updates
    ]
    try:
        await context.services.controller.update_features(updates, validate_only=request.validate_only)
    except BrokerError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    results = [] if context.version > LAST_VERSION_WITH_RESULTS else updates
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=update.name, error_code=ErrorCode.NONE, error_message=None)
            for update in results
        ],
    )


def _upgrade_type(version: int, update: FeatureUpdateKey) -> int:
    if version >= FIRST_VERSION_WITH_UPGRADE_TYPE:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
