"""The message classes of kafka-python and aiokafka, imported past the deprecation warnings of their own imports."""

from __future__ import annotations

import pkgutil
import warnings
from importlib import import_module
from typing import Any

from tests.unit.protocol.reference import BY_NAME, Schema

from tidelog.protocol.index import api_name

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka.protocol
    import kafka.protocol
    from aiokafka.protocol.api import RequestStruct, Response
    from kafka.protocol.api_header import RequestHeader as KafkaPythonRequestHeader
    from kafka.protocol.api_message import ApiMessage

    for package in (kafka.protocol, aiokafka.protocol):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".old" not in module.name and "generate_stubs" not in module.name:
                import_module(module.name)

__all__ = ["KafkaPythonRequestHeader", "aiokafka_classes", "kafka_python_classes", "schema_of"]


def kafka_python_classes() -> list[Any]:
    return sorted((each for each in ApiMessage.__subclasses__() if each.__name__ in BY_NAME), key=lambda c: c.__name__)


def aiokafka_classes() -> list[Any]:
    """One class per version."""
    classes = [*RequestStruct.__subclasses__(), *Response.__subclasses__()]
    return sorted((each for each in classes if each.API_VERSION in schema_of(each).versions), key=lambda c: c.__name__)


def schema_of(aiokafka_class: Any) -> Schema:
    kind = "Request" if issubclass(aiokafka_class, RequestStruct) else "Response"
    return BY_NAME[api_name(aiokafka_class.API_KEY) + kind]
