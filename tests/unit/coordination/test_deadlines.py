from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.deadlines import LEFT_BEHIND_MAX, DeadlineQueue


def test_keys_come_due_in_order_and_once() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.schedule("b", 20)
    queue.schedule("a", 10)
    queue.schedule("c", 30)
    assert queue.next_ms() == 10
    assert queue.pop_due(9) == []
    assert queue.pop_due(20) == ["a", "b"]
    assert queue.pop_due(20) == []
    assert queue.pop_due(100) == ["c"]
    assert queue.next_ms() is None


def test_no_more_than_asked_for_come_at_once() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    for key in "abcd":
        queue.schedule(key, 10)
    queue.schedule("a", 20)
    assert queue.pop_due(15, 2) == ["b", "c"]
    assert queue.next_ms() == 10
    assert queue.pop_due(15, 2) == ["d"]
    assert queue.next_ms() == 20


def test_a_deadline_that_was_pushed_back_is_not_due_at_its_old_time() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.schedule("member", 10)
    queue.schedule("member", 50)
    assert queue.next_ms() == 10, "looked at once more at the old time, which is early and harmless"
    assert queue.pop_due(10) == []
    assert queue.next_ms() == 50
    assert queue.pop_due(50) == ["member"]


def test_a_deadline_that_was_pulled_forward_is_due_once() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.schedule("member", 50)
    queue.schedule("member", 10)
    assert queue.pop_due(10) == ["member"]
    assert queue.pop_due(100) == []


def test_a_cancelled_deadline_does_not_come() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.schedule("member", 10)
    queue.cancel("member")
    assert queue.pop_due(100) == []
    queue.schedule("member", 200)
    assert queue.pop_due(199) == []
    assert queue.pop_due(200) == ["member"]


def test_heartbeats_do_not_grow_the_heap() -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    for now in range(0, 10_000, 10):
        for member in range(10):
            queue.schedule(member, now + 45_000)
        queue.pop_due(now)
    assert queue.entry_count == 10


def test_those_who_come_and_go_leave_a_bounded_number_behind() -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    queue.schedule(-1, 5)
    for member in range(10 * LEFT_BEHIND_MAX):
        queue.schedule(member, 1_800_000)
        queue.cancel(member)
    assert len(queue) == 1
    assert queue.entry_count <= LEFT_BEHIND_MAX + 3
    assert queue.pop_due(2_000_000) == [-1]
    assert queue.next_ms() is None


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("schedule"), st.integers(0, 5), st.integers(0, 100)),
            st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
            st.tuples(st.just("pop"), st.just(0), st.integers(0, 100)),
        )
    )
)
def test_behaves_like_a_plain_dictionary_of_deadlines(steps: list[tuple[str, int, int]]) -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    model: dict[int, int] = {}
    now = 0
    for step, key, number in steps:
        if step == "schedule":
            queue.schedule(key, now + number)
            model[key] = now + number
        elif step == "cancel":
            queue.cancel(key)
            model.pop(key, None)
        else:
            now += number
            expected = {key for key, due in model.items() if due <= now}
            popped = queue.pop_due(now)
            assert set(popped) == expected
            assert len(popped) == len(expected)
            model = {key: due for key, due in model.items() if due > now}
        assert len(queue) == len(model)
        if model:
            next_ms = queue.next_ms()
            assert next_ms is not None
            assert next_ms <= min(model.values())
