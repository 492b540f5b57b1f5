"""Section `gateways`: doors for programs without a Kafka client."""

from __future__ import annotations

from tidelog.config.setting import Settings, int32, optional_text, word_list


class GatewaySection(Settings, section="gateways"):
    http_listen: str | None = optional_text(doc="host:port of the HTTP door; no door when nothing is given.")
    http_advertised: str | None = optional_text(
        doc="host:port that HTTP clients are sent to; what is bound when nothing is given."
    )
    http_cors_origins: tuple[str, ...] = word_list(
        default=(),
        doc="Origins whose pages may use the HTTP door from a browser, such as https://shop.example.org; * for all.",
    )
    grpc_listen: str | None = optional_text(doc="host:port of the gRPC door; no door when nothing is given.")
    grpc_advertised: str | None = optional_text(
        doc="host:port that gRPC clients are told; what is bound when nothing is given."
    )
    grpc_max_in_flight: int = int32(
        default=1000, minimum=1, doc="Records that a gRPC subscription may have read and its client has not taken."
    )
