import asyncio
import time

from tests.waiting import eventually

from tidelog.runtime.loop_delay import LoopDelay


async def test_a_loop_that_is_held_up_is_seen() -> None:
    seen: list[float] = []
    watched = LoopDelay(seen.append, look_s=0.005)
    watched.start()
    time.sleep(0.05)  # Holds the loop up, which is the point.
    await eventually(lambda: len(seen) >= 3, "three looks at the loop", interval_s=0.001)
    watched.stop()
    assert max(seen) >= 0.03
    assert min(seen) >= 0.0


async def test_nothing_is_reported_after_the_stop() -> None:
    seen: list[float] = []
    watched = LoopDelay(seen.append, look_s=0.001)
    watched.start()
    watched.stop()
    watched.stop()
    await asyncio.sleep(0.01)
    assert not seen
