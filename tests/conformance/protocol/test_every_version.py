"""Every API in every version, the oldest included: the answer has the form of its version and no error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.protocol.cases import GOOD_CASES, Case
from tests.conformance.protocol.world import World, set_up_world
from tests.servers.broker_process import BrokerProcess
from tests.servers.target import start_target
from tests.servers.wire import Connection, ConnectionLost

from tidelog.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.message import Structure

UNSUPPORTED_VERSION = 35
PRODUCE = 0
FETCH = 1
API_VERSIONS = 18


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A broker of its own, because the cases name their topics."""
    with start_target(tmp_path_factory.mktemp("versions")) as broker:
        prepared = set_up_world(broker.port)
        yield prepared
        prepared.connection.close()


def error_codes(structure: object) -> list[int]:
    """Every error code of an answer, however deep."""
    if isinstance(structure, list):
        return [code for element in structure for code in error_codes(element)]
    if not isinstance(structure, Structure):
        return []
    fields = [(name, getattr(structure, name)) for name in structure.__slots__]
    own = [value for name, value in fields if name.endswith("error_code")]
    return own + [code for _, value in fields for code in error_codes(value)]


@pytest.mark.parametrize(
    ("case", "version"),
    [pytest.param(case, version, id=f"{case.name}-v{version}") for case in GOOD_CASES for version in case.versions],
)
def test_every_version_is_answered_in_its_own_form(world: World, case: Case, version: int) -> None:
    try:
        response = world.connection.call(case.build(world, version), version)
    except (ConnectionLost, TimeoutError):
        # The next case must not meet this one's answer.
        world.connection.close()
        world.connection = Connection(world.port)
        raise
    assert set(error_codes(response)) <= {0}, response


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: BrokerProcess) -> None:
    """So a newer client learns what it may ask."""
    with Connection(broker.port) as connection:
        connection.send_frame(b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01x\x00")
        answer = connection.receive_frame()
    response, end = ApiVersionsResponse.decode(answer, 4, 0)
    assert answer[:4] == b"\x00\x00\x00\x07"
    assert end == len(answer)
    assert response.error_code == UNSUPPORTED_VERSION
    assert any(api.api_key == API_VERSIONS and api.max_version >= 3 for api in response.api_keys)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(PRODUCE, 0), (PRODUCE, 2), (PRODUCE, 99), (FETCH, 0), (FETCH, 99), (3, 99), (999, 0), (-1, 0), (4, 0)],
)
def test_what_is_not_served_closes_the_connection_and_never_hangs(
    broker: BrokerProcess, api_key: int, version: int
) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\0\0\0\1\0\1x" + b"\0" * 60
    with Connection(broker.port, timeout_s=10) as connection:
        connection.send_frame(frame)
        with pytest.raises(ConnectionLost):
            connection.receive_frame()


def test_every_listed_api_answers_or_closes(broker: BrokerProcess) -> None:
    """Whatever ApiVersions lists, an empty body of it gets an answer or an end, not silence."""
    with Connection(broker.port) as connection:
        listed = connection.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    for api in listed.api_keys:
        with Connection(broker.port, timeout_s=10) as connection:
            try:
                connection.call_raw(api.api_key, api.max_version, b"")
            except ConnectionLost:
                continue
