"""A node in the eyes of its cluster: registered, alive, and ready for clients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.controller.core.brokers import decide_new_leader_epochs
from tidelog.controller.lifecycle import BrokerLifecycle, RegistrationRefused
from tidelog.node.closing import Closing, Step
from tidelog.node.cluster import Cluster, ask_members
from tidelog.node.disk_room import DiskRoom
from tidelog.node.errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.controller.core.decision import Decision
    from tidelog.metadata.image import MetadataImage
    from tidelog.node.site import Site
    from tidelog.runtime.system import System


def new_lifecycle(
    site: Site,
    cluster: Cluster,
    collect_statistics: Callable[[], dict[str, Any]],
    give_up: Callable[[str], None],
    system: System,
) -> BrokerLifecycle:
    return BrokerLifecycle(
        cluster.service,
        cluster.channel,
        cluster.membership,
        collect_statistics=collect_statistics,
        give_up=give_up,
        ask_members=partial(ask_members, site, cluster),
        is_short_of_room=DiskRoom(site.directory.path, system.disk).is_short,
    )


async def register(
    site: Site, cluster: Cluster, lifecycle: BrokerLifecycle, closing: Closing, *, alone: bool
) -> MetadataImage:
    """Makes the node known to its cluster; returns the metadata to begin with."""
    closing.note(Step.LIFECYCLE, lifecycle.stop)
    if alone:
        await lifecycle.register_alone(site.doors.endpoints, site.directory_id)
        if not site.directory.clean_shutdown:
            await _begin_leader_epochs(cluster, site.config.node_id)
    else:
        try:
            await cluster.failure.run_unless_failed(lifecycle.register(site.doors.endpoints, site.directory_id))
        except RegistrationRefused as error:
            raise NodeStartError(str(error)) from None
    return cluster.controller.take_newest()


async def _begin_leader_epochs(cluster: Cluster, node_id: int) -> None:
    """After a crash the partitions it leads begin a new leader epoch."""
    position = 0

    def decide(image: MetadataImage) -> Decision[int]:
        return decide_new_leader_epochs(image, node_id, position)

    while position >= 0:
        position = await cluster.service.submit(decide)


async def begin_work(cluster: Cluster, lifecycle: BrokerLifecycle, closing: Closing) -> None:
    """The node can serve: returns when its cluster sends it clients."""
    lifecycle.start()
    await cluster.failure.run_unless_failed(lifecycle.ready())
    closing.note(Step.HAND_OVER, lifecycle.hand_over)
