"""Makes the key of HTTP sessions where the controller is active, as soon as a node with an HTTP door needs it.

On every other node it only says, once, when the node's own door has to do without a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.controller.core.session_keys import (
    decide_session_key,
    has_http_door,
    may_have_session_key,
    needs_session_key,
)
from tidelog.controller.quorum_controller import QuorumController
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.session_keys import LEVEL
from tidelog.model.errors import BrokerError
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.controller")

RETRY_SECONDS = 0.5


class SessionKeyMaker:
    def __init__(self, controller: QuorumController, random_bytes: Callable[[int], bytes]) -> None:
        self._controller = controller
        self._node_id = controller.config.node_id
        self._random_bytes = random_bytes
        self._has_said = False
        self._tasks = BackgroundTasks()
        self._making: asyncio.Task[None] | None = None
        controller.when_active_changes(self._active_changed)

    async def stop(self) -> None:
        await self._tasks.close()

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self._maybe_make()
        if not self._has_said and not may_have_session_key(image) and has_http_door(image, self._node_id):
            self._has_said = True
            logger.info(
                "HTTP sessions get no tokens",
                reason=f"the cluster is at {TIDELOG_VERSION} {image.features.get(TIDELOG_VERSION, 0)} and their key "
                f"needs {LEVEL}: `tidelog cluster upgrade`",
            )

    def _active_changed(self, is_active: bool, leader_before: int) -> None:
        self._maybe_make()

    def _maybe_make(self) -> None:
        is_making = self._making is not None and not self._making.done()
        if self._is_wanted() and not is_making:
            self._making = self._tasks.start(self._make(), "key of HTTP sessions")

    def _is_wanted(self) -> bool:
        return self._controller.is_active and needs_session_key(self._controller.newest_image)

    async def _make(self) -> None:
        while self._is_wanted():
            try:
                if await self._controller.submit(lambda image: decide_session_key(image, self._random_bytes)):
                    logger.info("key of HTTP sessions made")
            except BrokerError as error:
                # The quorum is slow, or the leadership is lost: then the next controller makes it.
                logger.info("key of HTTP sessions is put off", reason=error.message)
                await asyncio.sleep(RETRY_SECONDS)
