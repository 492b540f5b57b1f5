"""Loaded by the Python workers of a pipeline under test: kills in the middle of a transaction.

`open`: rows and marker are flushed, the transaction is open, and the driver dies. `executor`: the same moment, once,
and the executor that the worker belongs to dies. In both the worker itself lives on as a zombie and tries to commit
when the file `resume` appears, which must come to nothing. `partial`: one lane of the batch is committed, the next is
not, and the driver dies.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

MOMENT = os.environ.get("TIDELOG_TEST_KILL", "")
if MOMENT in ("open", "partial", "executor") and "pyspark.daemon" in " ".join(sys.orig_argv):
    import confluent_kafka

    def is_first(name: str) -> bool:
        """True for one of all workers."""
        try:
            (Path(os.environ["TIDELOG_TEST_PLACE"]) / name).open("x").close()
        except FileExistsError:
            return False
        return True

    def kill_driver() -> None:
        os.killpg(int(os.environ["TIDELOG_TEST_DRIVER"]), signal.SIGKILL)

    def kill_executor() -> None:
        """A worker is a child of the daemon, which is a child of the executor."""
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)

    class DeadlyProducer(confluent_kafka.Producer):
        """Reaches the commit, and something dies."""

        def commit_transaction(self, *arguments: float) -> None:
            if MOMENT == "partial":
                if not is_first("first-commit"):
                    kill_driver()
                    os._exit(1)
                super().commit_transaction(*arguments)
            elif MOMENT == "executor" and not is_first("first-commit"):
                super().commit_transaction(*arguments)
            else:
                self.become_zombie()

        def become_zombie(self) -> None:
            """Outlives what it worked for, and tries to commit when somebody else has long done so."""
            place = Path(os.environ["TIDELOG_TEST_PLACE"])
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self.flush(30)
            kill_driver() if MOMENT == "open" else kill_executor()
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
