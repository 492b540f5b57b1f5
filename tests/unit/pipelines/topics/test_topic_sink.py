"""What an exactly-once sink refuses before it asks a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.topics.topic_sink import write_topic


def test_speculation_is_refused() -> None:
    """A session cannot be set to speculate while it runs, and a Spark of its own for one line is too much."""
    settings = {"spark.speculation": "true"}
    session = SimpleNamespace(conf=SimpleNamespace(get=settings.get))
    frame: Any = SimpleNamespace(isStreaming=False, sparkSession=session)
    with pytest.raises(PipelineError, match=r"spark\.speculation is on: two copies of a task"):
        write_topic(frame, "topic", bootstrap="127.0.0.1:1")
