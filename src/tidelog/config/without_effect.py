"""Settings that are taken, so that a configuration written for Kafka starts a node, but change nothing yet.

`tidelog config explain` says so beside each of them. A test holds this list against the code: a setting that is made
to work leaves it, and a setting that is read nowhere cannot stay out.
"""

from __future__ import annotations

WITHOUT_EFFECT = frozenset(
    {
        # One event loop and a pool of threads do the work of all these.
        "num.io.threads",
        "num.network.threads",
        "log.cleaner.threads",
        # Buffers whose sizes are fixed, and rates that are not limited.
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        # Checkpoints are all written together, every replica.high.watermark.checkpoint.interval.ms.
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        # The quorum has timers of its own; a node has every role.
        "controller.quorum.append.linger.ms",
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.fetch.timeout.ms",
        "num.replica.fetchers",
        "process.roles",
        "replica.socket.receive.buffer.bytes",
        "request.timeout.ms",
    }
)
