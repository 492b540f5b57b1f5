"""Every limit of the client."""

from typing import Final

PARALLEL_MAX: Final = 4
"""Requests of a session that run side by side: a node takes as many tokens in one request. As many connections to a
node are kept."""
REDIRECTS_MAX: Final = 5
"""In a row, before there is a pause."""
ATTEMPTS_MAX: Final = 100
PAUSE_SECONDS_MIN: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
CONNECT_SECONDS_MAX: Final = 3.0
IDLE_SECONDS_MAX: Final = 30.0
"""A connection that was not used for so long is not trusted: what stands between may have forgotten it."""
SILENT_SECONDS_MAX: Final = 60.0
"""Nodes send signs of life on a stream more often: a connection without any is lost."""
LEADERS_MAX: Final = 1000
"""Partitions whose leaders are remembered."""
HEADERS_MAX: Final = 100
ANSWER_BYTES_MAX: Final = 512 * 1024 * 1024
EVENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest record is 100 MiB by default, and base64 takes a third more."""
PART_BYTES: Final = 64 * 1024
