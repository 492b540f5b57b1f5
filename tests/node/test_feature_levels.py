"""Levels of features on a real node: what it tells of them, and how it ends when the metadata is ahead of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.cli.wire import BrokerConnection
from tidelog.metadata.features import BOOTSTRAP, SUPPORTED, TIDELOG_VERSION
from tidelog.node.errors import NodeStartError
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.testing.broker import Broker


def test_clients_are_told_the_supported_and_the_finalised_level(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, BrokerConnection("127.0.0.1", broker.port) as connection:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        response = connection.call(request, 4)
    supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    assert supported[TIDELOG_VERSION] == (0, 2)
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    assert finalized[TIDELOG_VERSION] == 2


def test_a_node_older_than_its_metadata_ends_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setitem(SUPPORTED, TIDELOG_VERSION, (0, 3))
        newer.setitem(BOOTSTRAP, TIDELOG_VERSION, 3)
        with Broker(data=tmp_path) as broker:
            assert broker.node.metadata.features[TIDELOG_VERSION] == 3
    for snapshot in (True, False):
        if not snapshot:
            for file in (tmp_path / "__cluster_metadata-0").glob("*.checkpoint"):
                file.unlink()
        with pytest.raises(NodeStartError) as refused:
            Broker(data=tmp_path).start()
        line = str(refused.value)
        assert "the cluster is at tidelog.version 3 and this node supports at most 2: upgrade it" in line
        assert "\n" not in line
