"""What can go wrong between bytes and messages.

Bytes from a peer raise `MalformedMessage` or `UnsupportedVersion` and nothing else; a message that cannot be written
as asked is this node's own mistake and raises `UnsupportedField` or `UnencodableValue`.
"""

from tidelog.model.errors import BrokerError, ErrorCode


class MalformedMessage(BrokerError):
    """The bytes are not a message of that version: the connection they came from is to be closed."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class UnsupportedVersion(BrokerError):
    def __init__(self, name: str, version: int) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"{name} has no version {version}")


class UnsupportedField(BrokerError):
    """A field that must not be dropped silently does not exist, or cannot be null, in the version being written."""

    def __init__(self, field: str, version: int) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"version {version} cannot carry this value of {field}")


class UnencodableValue(ValueError):
    """A value outside the range of its field, such as a string above 32,767 bytes."""
