"""The brokers of the cluster as they registered, whether they are alive or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.config.listener import GATEWAY_NAMES
from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.sub_image import SubDelta, changed_keys
from tidelog.protocol.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.generated.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.generated.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from tidelog.protocol.generated.unfence_broker_record import UnfenceBrokerRecord
from tidelog.protocol.generated.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.message import Message


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int


class BrokerImage(NamedTuple):
    node_id: int
    epoch: int
    """The offset of the registration: a node that registers again is a new one."""
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...]
    features: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest level the node supports."""

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Where clients of this listener find the node; the only listener there is serves clients of every other."""
        for endpoint in self.endpoints:
            if endpoint.name == listener_name:
                return endpoint
        listeners = [endpoint for endpoint in self.endpoints if endpoint.name not in GATEWAY_NAMES]
        return listeners[0] if len(listeners) == 1 else None

    def gateway(self, name: str) -> Endpoint | None:
        """Where the node has this other door, if it has one."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == name), None)


@dataclass(frozen=True, slots=True)
class BrokersImage:
    by_id: dict[int, BrokerImage] = field(default_factory=dict)

    def records(self) -> Iterator[Message]:
        return (register_broker_record(broker) for broker in self.by_id.values())


class BrokersDelta(SubDelta[BrokersImage]):
    __slots__ = ("_base", "_by_id", "changed")

    IMAGE = BrokersImage

    def __init__(self, base: BrokersImage) -> None:
        self._base = base
        self._by_id = base.by_id
        self.changed: set[int] = set()
        """Registered, changed or gone."""

    def replay_register(self, record: RegisterBrokerRecord) -> None:
        self._put(
            BrokerImage(
                node_id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=bytes(record.incarnation_id),
                endpoints=tuple(Endpoint(e.name, e.host, e.port) for e in record.end_points),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                features=tuple((f.name, f.min_supported_version, f.max_supported_version) for f in record.features),
            )
        )

    def replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._find(record.broker_id, record.broker_epoch)
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        self._put(broker._replace(**changes))

    def replay_fence(self, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
        """What older versions of Kafka wrote instead of a change of the registration."""
        broker = self._find(record.id, record.epoch)
        self._put(broker._replace(fenced=isinstance(record, FenceBrokerRecord)))

    def replay_unregister(self, record: UnregisterBrokerRecord) -> None:
        self._by_id = {node_id: broker for node_id, broker in self._by_id.items() if node_id != record.broker_id}
        self.changed.add(record.broker_id)

    def _find(self, node_id: int, epoch: int) -> BrokerImage:
        broker = self._by_id.get(node_id)
        if broker is None or broker.epoch != epoch:
            raise UnreadableMetadata(f"change of broker {node_id} in an epoch that is not known")
        return broker

    def _put(self, broker: BrokerImage) -> None:
        self._by_id = {**self._by_id, broker.node_id: broker}
        self.changed.add(broker.node_id)

    def apply(self) -> BrokersImage:
        return BrokersImage(self._by_id) if self.changed else self._base

    @property
    def is_empty(self) -> bool:
        return not self.changed

    @classmethod
    def between(cls, before: BrokersImage, after: BrokersImage) -> BrokersDelta:
        delta = cls(after)
        delta.changed = changed_keys(before.by_id, after.by_id)
        return delta

    REPLAYS = {
        RegisterBrokerRecord: replay_register,
        UnregisterBrokerRecord: replay_unregister,
        BrokerRegistrationChangeRecord: replay_registration_change,
        FenceBrokerRecord: replay_fence,
        UnfenceBrokerRecord: replay_fence,
    }


def register_broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(name=e.name, host=e.host, port=e.port) for e in broker.endpoints],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )
