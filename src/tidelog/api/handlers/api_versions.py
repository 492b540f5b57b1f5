"""ApiVersions: what this node serves, straight from the table of APIs."""

from __future__ import annotations

from functools import lru_cache

from tidelog.api.context import RequestContext
from tidelog.api.table import APIS
from tidelog.metadata.features import SUPPORTED
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.protocol.private_apis import NODE_SOFTWARE_NAME

CLIENT_SOFTWARE_LENGTH_MAX = 255


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.version >= 3:
        if not _is_software_name(request.client_software_name) or not _is_software_name(
            request.client_software_version
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=_api_keys())
        connection = context.caller.connection
        if connection is not None:
            connection.client_software = (request.client_software_name, request.client_software_version)
    image = context.services.metadata.image
    is_node = request.client_software_name == NODE_SOFTWARE_NAME
    return _response(is_node, image.offset, tuple(image.features.items()))


@lru_cache(maxsize=16)
def _response(is_node: bool, metadata_offset: int, features: tuple[tuple[str, int], ...]) -> ApiVersionsResponse:
    """Every connection begins with this request, and the response is long: it is kept until the metadata changes."""
    return ApiVersionsResponse(
        api_keys=_api_keys(is_node),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high) in SUPPORTED.items()
        ],
        finalized_features_epoch=metadata_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level) for name, level in features
        ],
    )


def unsupported_version_response() -> ApiVersionsResponse:
    """What Kafka answers, in version 0, to a version of ApiVersions it does not know: the versions it does know."""
    own = next(api for api in APIS if api.handler == "api_versions")
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)],
    )


def _api_keys(is_node: bool = False) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=api.key,
            min_version=api.min_version if api.advertised_min_version is None else api.advertised_min_version,
            max_version=api.max_version,
        )
        for api in APIS
        if is_node or not api.between_nodes
    ]


def _is_software_name(name: str) -> bool:
    """Letters, digits, dots and dashes, with a letter or digit at both ends, as Kafka asks."""
    return (
        0 < len(name) <= CLIENT_SOFTWARE_LENGTH_MAX
        and name.isascii()
        and name[0].isalnum()
        and name[-1].isalnum()
        and all(character.isalnum() or character in ".-" for character in name)
    )
