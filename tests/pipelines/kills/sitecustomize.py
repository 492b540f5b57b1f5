"""Loaded by the Python workers of a pipeline under test: kills its driver in the middle of a transaction.

`open`: rows and marker are flushed, the transaction is open. The worker itself lives on as a zombie and tries to
commit when the file `resume` appears, which must come to nothing. `partial`: one lane of the batch is committed, the
next is not.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

MOMENT = os.environ.get("TIDELOG_TEST_KILL", "")
if MOMENT in ("open", "partial") and "pyspark.daemon" in " ".join(sys.orig_argv):
    import confluent_kafka

    class DeadlyProducer(confluent_kafka.Producer):
        """Reaches the commit, and the driver dies."""

        def commit_transaction(self, *arguments: float) -> None:
            place = Path(os.environ["TIDELOG_TEST_PLACE"])
            if MOMENT == "partial":
                try:
                    (place / "first-commit").open("x").close()
                except FileExistsError:
                    os.killpg(int(os.environ["TIDELOG_TEST_DRIVER"]), signal.SIGKILL)
                    os._exit(1)
                super().commit_transaction(*arguments)
                return
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self.flush(30)
            os.killpg(int(os.environ["TIDELOG_TEST_DRIVER"]), signal.SIGKILL)
            deadline = time.monotonic() + 300
            while not (place / "resume").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            try:
                super().commit_transaction(30)
                outcome = "committed"
            except confluent_kafka.KafkaException as error:
                outcome = error.args[0].name()
            (place / f"zombie-{os.getpid()}").write_text(outcome)
            os._exit(1)

    confluent_kafka.Producer = DeadlyProducer
