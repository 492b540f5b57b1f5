"""`tidelog cluster upgrade`: raises `tidelog.version` to what the asked node supports, if all other nodes do too."""

from __future__ import annotations

import argparse

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.wire import BrokerConnection, connect_broker
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.protocol.generated.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.version import __version__

API_VERSIONS_VERSION = 4
UPDATE_FEATURES_VERSION = 1
"""The first that can be asked to change nothing."""


def run_upgrade(args: argparse.Namespace) -> int:
    with connect_broker(args) as connection:
        current, highest = _read_levels(connection)
        if current < highest:
            _raise_level(connection, highest, dry_run=args.dry_run)
    if args.json:
        print_json({"feature": TIDELOG_VERSION, "before": current, "after": highest, "dry_run": args.dry_run})
    elif current == highest:
        print(f"{TIDELOG_VERSION} is {current}, the highest level this node supports")
    elif args.dry_run:
        print(f"{TIDELOG_VERSION} can be raised from {current} to {highest}: every node supports it")
    else:
        print(f"{TIDELOG_VERSION} is raised from {current} to {highest}; older versions cannot take part any more")
    return 0


def _read_levels(connection: BrokerConnection) -> tuple[int, int]:
    """The level of the cluster, and the highest that the asked node supports."""
    request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
    response = connection.call(request, API_VERSIONS_VERSION)
    supported = {each.name: each.max_version for each in response.supported_features}
    if TIDELOG_VERSION not in supported:
        raise CommandError(f"this node does not know {TIDELOG_VERSION}: upgrade it, and every other node, first")
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    return finalized.get(TIDELOG_VERSION, 0), supported[TIDELOG_VERSION]


def _raise_level(connection: BrokerConnection, level: int, *, dry_run: bool) -> None:
    update = FeatureUpdateKey(feature=TIDELOG_VERSION, max_version_level=level)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=dry_run)
    response = connection.call(request, UPDATE_FEATURES_VERSION)
    errors = [(response.error_code, response.error_message)]
    errors += [(result.error_code, result.error_message) for result in response.results]
    for code, message in errors:
        if code:
            raise CommandError(
                f"cannot raise {TIDELOG_VERSION} to {level}: {message or ErrorCode(code).message} Every node must be "
                "upgraded first; a node that will not come back is forgotten with `tidelog cluster remove`"
            )
