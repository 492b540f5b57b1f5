from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.gateways.grpc.shared import Shared
from tidelog.metadata.brokers import BrokerImage
from tidelog.metadata.image import Endpoint


def endpoint(name: str, port: int) -> Endpoint:
    return Endpoint(name, "h", port)


@pytest.mark.parametrize(
    ("endpoints", "address"),
    [
        ([endpoint("PLAINTEXT", 1), endpoint("GRPC", 2)], ("h", 2)),
        ([endpoint("PLAINTEXT", 1)], None),
        ([], None),
    ],
)
def test_only_the_address_of_a_grpc_door_is_told(endpoints: list[Endpoint], address: tuple[str, int] | None) -> None:
    access: Any = SimpleNamespace(
        image=SimpleNamespace(brokers={1: BrokerImage(1, 1, bytes(16), tuple(endpoints), None, False, False, (), {})})
    )
    services: Any = None
    shared = Shared(services=services, max_in_flight=1)
    assert shared.address_of(access, 1) == address
    assert shared.address_of(access, 2) is None
    assert shared.address_of(access, None) is None
