"""Brokers come, are fenced, return and leave. What happens to their partitions is decided with it.

A decision changes a bounded number of partitions; the rest is left to `decide_leave_partitions` and
`decide_lead_again`, which find what is still to be done in the image, so that any later controller can complete it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX, Decision
from tidelog.controller.core.partition_change import CanLead, PartitionChange
from tidelog.metadata.brokers import register_broker_record
from tidelog.metadata.configs import RESOURCE_BROKER
from tidelog.metadata.features import BOOTSTRAP, SUPPORTED
from tidelog.metadata.image import CORDONED, NO_LEADER, BrokerImage, Endpoint, MetadataImage, TopicImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.message import Message

CHANGES_PER_DECISION_MAX = RECORDS_PER_DECISION_MAX - 100
"""Changes of partitions beside the records of the broker itself."""

NEVER_REGISTERED = -1
OWN_FEATURES = tuple((name, low, high) for name, (low, high) in SUPPORTED.items())


class Registration(NamedTuple):
    """What a node registers with when it starts."""

    node_id: int
    incarnation_id: bytes
    """Random, one per start of the process."""
    endpoints: Sequence[Endpoint]
    directories: Sequence[bytes]
    cluster_id: str | None = None
    rack: str | None = None
    features: Sequence[tuple[str, int, int]] = OWN_FEATURES
    previous_epoch: int = NEVER_REGISTERED
    """The broker epoch the node had before, as its own copy of the metadata shows it."""


def decide_register_broker(
    image: MetadataImage,
    config: BrokerConfig,
    registration: Registration,
    *,
    fenced: bool = True,
    has_session: bool = False,
) -> Decision[int]:
    """The reply is the broker epoch: the offset of the registration itself, so that a later one is always larger.

    `has_session`: a node with this id is alive. The first broker of a new cluster brings the feature levels with it.
    """
    known = image.brokers.get(registration.node_id)
    _check_registration(image, registration, known, has_session)
    if known is not None and known.incarnation_id == registration.incarnation_id:
        return Decision([], known.epoch)
    bootstrap = {} if image.features else BOOTSTRAP
    records: list[Message] = [FeatureLevelRecord(name=name, feature_level=level) for name, level in bootstrap.items()]
    epoch = image.next_offset + len(records)
    broker = BrokerImage(
        node_id=registration.node_id,
        epoch=epoch,
        incarnation_id=registration.incarnation_id,
        endpoints=tuple(registration.endpoints),
        rack=registration.rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=tuple(registration.directories),
        features=tuple(registration.features),
    )
    records.append(register_broker_record(broker))
    changes = _leave(image, config, broker.node_id) if fenced else _lead_again(image, config, broker.node_id)
    records += islice(changes, CHANGES_PER_DECISION_MAX)
    return Decision(records, epoch)


def _check_registration(
    image: MetadataImage, registration: Registration, known: BrokerImage | None, has_session: bool
) -> None:
    node_id = registration.node_id
    if registration.cluster_id is not None and registration.cluster_id != image.cluster_id:
        raise BrokerError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {registration.cluster_id}",
        )
    if known is None and registration.previous_epoch != NEVER_REGISTERED:
        raise BrokerError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Node {node_id} was removed from the cluster; to join again it needs an empty data directory.",
        )
    if known is not None and known.incarnation_id != registration.incarnation_id and has_session:
        where = f"{known.endpoints[0].host}:{known.endpoints[0].port}" if known.endpoints else "another address"
        raise BrokerError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another node with id {node_id} is alive at {where}."
        )
    supported = {name: (low, high) for name, low, high in registration.features}
    for name, level in image.features.items():
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive.",
            )


# -- heartbeats --------------------------------------------------------------------------------------------------------


class HeartbeatReply(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def decide_heartbeat(
    image: MetadataImage,
    config: BrokerConfig,
    node_id: int,
    epoch: int,
    *,
    metadata_offset: int,
    want_fence: bool = False,
    want_shut_down: bool = False,
) -> Decision[HeartbeatReply]:
    """A fenced node that has seen its registration may work; one that wants to stop gives up its leaderships first."""
    broker = require_broker(image, node_id, epoch)
    is_caught_up = metadata_offset >= broker.epoch
    if broker.fenced:
        if want_shut_down or want_fence or not is_caught_up:
            return Decision([], HeartbeatReply(is_caught_up, True, want_shut_down))
        change = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=-1)
        records = [change, *islice(_lead_again(image, config, node_id), CHANGES_PER_DECISION_MAX)]
        return Decision(records, HeartbeatReply(True, False, False))
    if want_shut_down:
        records = []
        if not broker.in_controlled_shutdown:
            records.append(
                BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, in_controlled_shutdown=1)
            )
        records += islice(_leave(image, config, node_id), CHANGES_PER_DECISION_MAX)
        if records:
            return Decision(records, HeartbeatReply(is_caught_up, False, False))
        # Nothing depends on the node any more: fence it, so that clients are no longer sent to it.
        return Decision(decide_fence_broker(image, config, node_id).records, HeartbeatReply(is_caught_up, True, True))
    if want_fence:
        return Decision(decide_fence_broker(image, config, node_id).records, HeartbeatReply(is_caught_up, True, False))
    return Decision([], HeartbeatReply(is_caught_up, False, False))


def require_broker(image: MetadataImage, node_id: int, epoch: int) -> BrokerImage:
    """The broker with this id and epoch; STALE_BROKER_EPOCH when it has registered again since."""
    broker = image.brokers.get(node_id)
    if broker is None:
        raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Node {node_id} is not registered.")
    if broker.epoch != epoch:
        raise BrokerError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        )
    return broker


# -- loss and return ---------------------------------------------------------------------------------------------------


def decide_fence_broker(image: MetadataImage, config: BrokerConfig, node_id: int) -> Decision[None]:
    """The node was silent for too long: clients are not sent to it, and its partitions get other leaders."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return Decision([], None)
    change = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, fenced=1)
    return Decision([change, *islice(_leave(image, config, node_id), CHANGES_PER_DECISION_MAX)], None)


def can_be_spared(image: MetadataImage, node_id: int) -> bool:
    """Whether every partition the node leads would have another leader at once."""
    return all(
        any(other != node_id and image.is_active(other) for other in state.isr)
        for topic in image.topics.values()
        for state in topic.partitions.values()
        if state.leader == node_id
    )


def decide_unregister_broker(image: MetadataImage, config: BrokerConfig, node_id: int) -> Decision[None]:
    broker = image.brokers.get(node_id)
    if broker is None:
        raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered")
    record = UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.epoch)
    # First out of the partitions, then out of the cluster: in between the node is only fenced.
    records: list[Message] = [*islice(_leave(image, config, node_id), CHANGES_PER_DECISION_MAX)]
    if len(records) == CHANGES_PER_DECISION_MAX:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"Broker {node_id} holds too many partitions to go at once; stop it first."
        )
    if image.is_cordoned(node_id):
        # Another node may get this id one day, and must not inherit the setting.
        records.append(ConfigRecord(resource_type=RESOURCE_BROKER, resource_name=str(node_id), name=CORDONED))
    return Decision([*records, record], None)


def decide_leave_partitions(image: MetadataImage, config: BrokerConfig) -> Decision[bool]:
    """Takes brokers that cannot work out of in-sync sets and leaderships; the reply says whether there may be more."""
    idle = [broker.node_id for broker in image.brokers.values() if not image.is_active(broker.node_id)]
    changes = (record for node_id in idle for record in _leave(image, config, node_id))
    records: list[Message] = []
    seen: set[tuple[bytes, int]] = set()
    for record in changes:
        # Two idle brokers of one partition: the second change must see the first.
        key = (record.topic_id, record.partition_id)
        if key not in seen:
            seen.add(key)
            records.append(record)
        if len(records) == CHANGES_PER_DECISION_MAX:
            break
    return Decision(records, bool(records))


def decide_lead_again(image: MetadataImage, config: BrokerConfig) -> Decision[bool]:
    """Elects for partitions without a leader; the reply says whether there may be more."""
    records = list(islice(_lead_again(image, config, None), CHANGES_PER_DECISION_MAX))
    return Decision([*records], bool(records))


def decide_new_leader_epochs(image: MetadataImage, node_id: int, skip: int) -> Decision[int]:
    """Partitions the node leads get a new leader epoch: it crashed, and what it lost must not be mistaken for what it
    writes from now on. Reads and fetchers see the change of epoch and check where their logs part.

    Goes over the partitions in order, at most one batch at a time; the reply is where to go on, -1 at the end.
    """
    records: list[Message] = []
    seen = 0
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            seen += 1
            if seen <= skip:
                continue
            if state.leader == node_id:
                records.append(PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id))
            if len(records) == RECORDS_PER_DECISION_MAX:
                return Decision(records, seen)
    return Decision(records, -1)


def _leave(image: MetadataImage, config: BrokerConfig, node_id: int) -> Iterator[PartitionChangeRecord]:
    """The node out of every in-sync set that has another member, and out of every leadership."""

    def can_lead(other: int) -> bool:
        return other != node_id and image.is_active(other)

    unclean = _UncleanTopics(image, config)
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            if node_id not in state.isr and state.leader != node_id:
                continue
            change = PartitionChange(
                image, topic.topic_id, index, state, can_lead=can_lead, unclean=unclean.allows(topic)
            )
            change.isr = [other for other in state.isr if other != node_id]
            record = change.record()
            if record is not None:
                yield record


def _lead_again(image: MetadataImage, config: BrokerConfig, node_id: int | None) -> Iterator[PartitionChangeRecord]:
    """Leaders for partitions without one, `node_id` counted among the brokers that can."""
    can_lead: CanLead | None = None
    if node_id is not None:

        def can_lead_now(other: int) -> bool:
            return other == node_id or image.is_active(other)

        can_lead = can_lead_now
    unclean = _UncleanTopics(image, config)
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            if state.leader == NO_LEADER and (node_id is None or node_id in state.replicas):
                record = PartitionChange(
                    image, topic.topic_id, index, state, can_lead=can_lead, unclean=unclean.allows(topic)
                ).record()
                if record is not None:
                    yield record


class _UncleanTopics:
    """Whether a topic may lose records to have a leader; looked up once per topic."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        self._config = image.broker_config(config)
        self._known: dict[bytes, bool] = {}

    def allows(self, topic: TopicImage) -> bool:
        found = self._known.get(topic.topic_id)
        if found is None:
            found = self._known[topic.topic_id] = topic.effective_config(self._config).unclean_leader_election_enable
        return found
