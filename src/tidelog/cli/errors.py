"""Errors a command ends with: one line on standard error and an exit code, never a traceback."""

from __future__ import annotations

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_REMOVED = 3
"""Of `serve` alone: the cluster has removed the node. Whatever starts nodes need not try again."""
EXIT_INTERRUPTED = 130


class CommandError(Exception):
    """The command cannot do what was asked; the message is one line that says what to do about it."""

    exit_code = EXIT_FAILURE


class UsageError(CommandError):
    """The arguments do not make sense together; argparse finds the simpler ones itself."""

    exit_code = EXIT_USAGE


class RemovedError(CommandError):
    """The node does not belong to its cluster any more."""

    exit_code = EXIT_REMOVED


NO_CONTROLLER = "the cluster has no controller; `tidelog cluster status` shows which of its nodes are missing"
"""For NOT_CONTROLLER: a node sends such a request on, and answers this when it knows no controller."""
