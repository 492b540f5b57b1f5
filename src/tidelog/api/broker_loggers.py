"""The node's own loggers as the BROKER_LOGGER resource: read and set at run time, forgotten at the next start."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidelog.controller.core.configs import DELETE, SET, ConfigChange
from tidelog.model.errors import BrokerError, ErrorCode

ROOT = "tidelog"
_TO_PYTHON = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
_FROM_PYTHON = {
    logging.CRITICAL: "FATAL",
    logging.ERROR: "ERROR",
    logging.WARNING: "WARN",
    logging.INFO: "INFO",
    logging.DEBUG: "DEBUG",
}


def logger_levels() -> dict[str, str]:
    """Kafka's level names by logger."""
    names = [ROOT, *sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{ROOT}."))]
    return {name: _FROM_PYTHON.get(logging.getLogger(name).getEffectiveLevel(), "INFO") for name in names}


def check_logger_resource(name: str, node_id: int) -> None:
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if not name.isascii() or not name.isdigit() or int(name) != node_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def alter_loggers(changes: Iterable[ConfigChange], *, validate_only: bool) -> None:
    """All changes or none. DELETE gives a logger the level of its parent back."""
    levels: dict[str, int] = {}
    known = logger_levels()
    for change in changes:
        if change.operation not in (SET, DELETE):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Loggers take the operations SET and DELETE only.")
        if change.name not in known:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.operation == DELETE:
            if change.name == ROOT:
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )
            levels[change.name] = logging.NOTSET
        elif change.value in _TO_PYTHON:
            levels[change.name] = _TO_PYTHON[change.value]
        else:
            raise BrokerError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(_TO_PYTHON)}",
            )
    if not validate_only:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
