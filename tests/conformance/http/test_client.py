"""`tidelog.client` against a real node: every method, of both sessions."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.http.conftest import HttpNode

from tidelog.client import AsyncSession, Record, RequestFailed, Session


def address_of(node: HttpNode) -> str:
    return f"http://127.0.0.1:{node.port}"


def test_records_go_in_and_come_out(http_node: HttpNode) -> None:
    with Session([address_of(http_node)]) as session:
        assert session.token is None
        headers = [("trace", b"7"), ("Upper", b"\xe9")]
        first = session.publish("client", 0, b"\x00\xff", key=b"customer-7", headers=headers)
        assert first == ("client", 0, 0)
        assert session.publish("client", 0, b"", acks="0").offset == -1
        assert session.publish_batch("client", 0, [b"a", b"", b"c"], acks="1").offsets == (2, 3, 4)
        found = session.fetch("client", 0, 0, min_offset=4, wait_ms=2000)
        assert found.next_offset == 5
        timestamp = found.records[0].timestamp
        assert found.records[0] == Record(
            0, timestamp, b"customer-7", b"\x00\xff", (("trace", b"7"), ("upper", b"\xe9"))
        )
        assert [record.value for record in found.records[1:]] == [b"", b"a", b"", b"c"]
        assert session.fetch("client", 0, 5) == ((), 5)
        assert session.token is not None


def test_a_session_goes_on_elsewhere(http_node: HttpNode) -> None:
    with Session([address_of(http_node)]) as session:
        session.publish("handed-over", 0, b"x")
    with Session([address_of(http_node)], token=session.token) as other:
        assert other.fetch("handed-over", 0, 0).next_offset == 1


@pytest.mark.parametrize(
    ("topic", "offset", "status", "kafka_error"),
    [("no-such", 0, 404, "UNKNOWN_TOPIC_OR_PARTITION"), ("errors", 5, 416, "OFFSET_OUT_OF_RANGE")],
)
def test_errors(http_node: HttpNode, topic: str, offset: int, status: int, kafka_error: str) -> None:
    with Session([address_of(http_node)]) as session:
        session.publish("errors", 0, b"x")
        with pytest.raises(RequestFailed) as failed:
            session.fetch(topic, 0, offset)
    assert (failed.value.status, failed.value.kafka_error) == (status, kafka_error)


def test_a_wrong_token_is_said(http_node: HttpNode) -> None:
    with (
        Session([address_of(http_node)], token="of-another-cluster") as session,
        pytest.raises(RequestFailed, match=r"^400: .*leave the header out"),
    ):
        session.publish("t", 0, b"x")


async def _publish_side_by_side(address: str) -> None:
    async with AsyncSession([address]) as session:
        written = await asyncio.gather(*(session.publish("beside", 0, b"%d" % number) for number in range(40)))
        assert sorted(each.offset for each in written) == list(range(40))
        assert session.token is not None
        assert session.token.count(",") < 4
        found = await session.fetch("beside", 0, 0)
        assert {record.value for record in found.records} == {b"%d" % number for number in range(40)}
        assert (await session.publish_batch("beside", 0, [b"a"])).offsets == (40,)
        cancelled = asyncio.ensure_future(session.fetch("beside", 0, 41, wait_ms=10_000))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (await session.fetch("beside", 0, 40)).next_offset == 41


def test_tasks_share_a_session(http_node: HttpNode) -> None:
    asyncio.run(_publish_side_by_side(address_of(http_node)))
