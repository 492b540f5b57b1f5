"""Which version is sent to a peer, and the steps by which a connection learns what the peer serves."""

from __future__ import annotations

import pytest

from tidelog.net.client.errors import BadAnswer, UnsupportedByPeer
from tidelog.net.client.handshake import begin_handshake
from tidelog.net.client.versions import PeerVersions
from tidelog.protocol.generated.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.index import ApiKey, schema_versions
from tidelog.protocol.private_apis import NODE_SOFTWARE_NAME, RAFT_API_KEY

UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42


def response(**ranges: tuple[int, int]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=ApiKey[name], min_version=low, max_version=high) for name, (low, high) in ranges.items()
        ]
    )


def versions(**ranges: tuple[int, int]) -> PeerVersions:
    return PeerVersions.from_response("node 2", response(**ranges), is_node=False)


def test_the_highest_version_that_both_know_is_sent() -> None:
    newest_here = schema_versions(ApiKey.METADATA)[1]
    assert versions(METADATA=(0, newest_here + 3)).newest(ApiKey.METADATA) == newest_here
    assert versions(METADATA=(0, newest_here - 2)).newest(ApiKey.METADATA) == newest_here - 2


def test_without_a_common_version_nothing_is_sent() -> None:
    low, high = schema_versions(ApiKey.METADATA)
    with pytest.raises(UnsupportedByPeer, match=f"node 2 supports versions {high + 1} to {high + 2} of Metadata, not"):
        versions(METADATA=(high + 1, high + 2)).newest(ApiKey.METADATA)
    with pytest.raises(UnsupportedByPeer, match="node 2 does not support Metadata"):
        versions(FETCH=(4, 18)).newest(ApiKey.METADATA)
    assert low == 0


def test_a_version_that_the_caller_chose_must_be_served() -> None:
    peer = versions(FETCH=(4, 17))
    peer.require(ApiKey.FETCH, 4)
    peer.require(ApiKey.FETCH, 17)
    for version in (3, 18):
        with pytest.raises(UnsupportedByPeer, match=f"supports versions 4 to 17 of Fetch, not version {version}"):
            peer.require(ApiKey.FETCH, version)
    with pytest.raises(UnsupportedByPeer, match="node 2 does not support 30000"):
        peer.require(RAFT_API_KEY, 0)


def test_a_node_that_names_no_api_between_nodes_is_of_version_0_1() -> None:
    peer = PeerVersions.from_response("node 2", response(FETCH=(4, 18)), is_node=True)
    assert peer.newest(ApiKey.ALTER_PARTITION) == 3
    peer.require(RAFT_API_KEY, 0)
    named = PeerVersions.from_response("node 2", response(FETCH=(4, 18), ALTER_PARTITION=(2, 2)), is_node=True)
    assert named.newest(ApiKey.ALTER_PARTITION) == 2
    with pytest.raises(UnsupportedByPeer):
        named.require(RAFT_API_KEY, 0)


def test_a_node_that_does_not_answer_is_taken_for_version_0_1() -> None:
    peer = PeerVersions.of_silent_node("node 2")
    peer.require(RAFT_API_KEY, 0)
    peer.require(ApiKey.FETCH, 17)
    assert peer.newest(ApiKey.WRITE_TXN_MARKERS) == 2


def test_a_handshake_introduces_itself_and_learns_the_versions() -> None:
    handshake = begin_handshake("node 2", NODE_SOFTWARE_NAME)
    step = next(handshake)
    request, _ = ApiVersionsRequest.decode(step.body, 0, step.version)
    assert (step.api_key, request.client_software_name) == (18, NODE_SOFTWARE_NAME)
    with pytest.raises(StopIteration) as done:
        handshake.send((b"head" + response(METADATA=(0, 5)).encode(step.version), 4))
    assert done.value.value.newest(ApiKey.METADATA) == 5


def test_a_broker_that_does_not_know_the_question_is_asked_in_version_0() -> None:
    handshake = begin_handshake("node 2", "tidelog")
    next(handshake)
    step = handshake.send((ApiVersionsResponse(error_code=UNSUPPORTED_VERSION).encode(0), 0))
    assert (step.version, step.body) == (0, b"")
    with pytest.raises(StopIteration) as done:
        handshake.send((response(METADATA=(0, 1)).encode(0), 0))
    assert done.value.value.newest(ApiKey.METADATA) == 1


@pytest.mark.parametrize("answer", [ApiVersionsResponse(error_code=INVALID_REQUEST).encode(3), b"\0\0", b""])
def test_a_bad_answer_ends_the_handshake(answer: bytes) -> None:
    handshake = begin_handshake("node 2", "tidelog")
    next(handshake)
    with pytest.raises(BadAnswer, match="node 2"):
        handshake.send((answer, 0))
