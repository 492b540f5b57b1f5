"""The `tidelog` script. Until the command watches for signals itself, Ctrl-C ends the process without a traceback.

Python is still importing then, for a good part of what a short command takes. Import this only to run a script.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> int:
    from tidelog.cli.main import main as run_command

    return run_command()


if __name__ == "__main__":
    raise SystemExit(main())
