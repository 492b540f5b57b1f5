from tidelog.telemetry.line_limits import KEYS_MAX, LINES_PER_WINDOW, WINDOW_S, HeldBack, LineLimiter

KEY = ("closed a connection", "malformed", "10.0.0.1")


def test_a_few_lines_are_printed_and_the_rest_is_counted_until_the_window_is_over() -> None:
    limiter = LineLimiter()
    printed = [limiter.admit(KEY, 10.0 + step / 100)[0] for step in range(1000)]
    assert printed == [True] * LINES_PER_WINDOW + [False] * (1000 - LINES_PER_WINDOW)
    assert limiter.take_counts(10.0 + WINDOW_S - 0.01) == []
    assert limiter.take_counts(10.0 + WINDOW_S) == [HeldBack(KEY, 1000 - LINES_PER_WINDOW, WINDOW_S, False)]
    assert limiter.take_counts(10.0 + WINDOW_S) == []
    assert not limiter.has_counts
    assert limiter.admit(KEY, 10.0 + WINDOW_S) == (True, None)


def test_a_line_in_the_next_window_brings_the_count_with_it() -> None:
    limiter = LineLimiter()
    for _ in range(10):
        limiter.admit(KEY, 0.0)
    assert limiter.admit(KEY, 100.0) == (True, HeldBack(KEY, 10 - LINES_PER_WINDOW, 100.0, False))
    assert not limiter.has_counts
    assert limiter.take_counts(1000.0) == []


def test_sources_are_counted_apart() -> None:
    limiter = LineLimiter()
    for _ in range(10):
        limiter.admit(KEY, 0.0)
    assert limiter.admit((*KEY[:2], "10.0.0.2"), 0.0) == (True, None)


def test_memory_and_lines_are_bounded_however_many_peers_there_are() -> None:
    limiter = LineLimiter()
    printed = sum(limiter.admit(("closed", str(peer)), peer / 1000)[0] for peer in range(50_000))
    assert printed == KEYS_MAX + LINES_PER_WINDOW
    assert len(limiter.windows) == KEYS_MAX
    assert len(limiter.shared) == 1
    [held_back] = limiter.take_counts(50.0 + WINDOW_S)
    assert (held_back.key, held_back.is_shared) == (("closed",), True)
    assert held_back.lines == 50_000 - printed
    assert not limiter.has_counts


def test_windows_that_are_over_make_room() -> None:
    limiter = LineLimiter()
    for peer in range(KEYS_MAX):
        limiter.admit(("closed", str(peer)), 0.0)
    assert all(limiter.admit(("closed", f"new {peer}"), WINDOW_S)[0] for peer in range(KEYS_MAX))
    assert len(limiter.windows) == KEYS_MAX
    assert not limiter.shared


def test_peers_that_take_turns_stay_within_the_bound_for_hours() -> None:
    limiter = LineLimiter()
    lines = 0
    for second in range(3600):
        for peer in range(200):
            is_printed, before = limiter.admit(("closed", str(peer)), float(second))
            lines += is_printed + (before is not None)
        lines += len(limiter.take_counts(float(second)))
    windows = 3600 / WINDOW_S
    assert lines <= (windows + 1) * (KEYS_MAX + 1) * (LINES_PER_WINDOW + 1)
