"""Section `gateways`: doors for programs without a Kafka client."""

from __future__ import annotations

from tidelog.config.setting import Settings, optional_text, word_list


class GatewaySection(Settings, section="gateways"):
    http_listen: str | None = optional_text(doc="host:port of the HTTP door; no door when nothing is given.")
    http_advertised: str | None = optional_text(
        doc="host:port that HTTP clients are sent to; what is bound when nothing is given."
    )
    http_cors_origins: tuple[str, ...] = word_list(
        default=(),
        doc="Origins whose pages may use the HTTP door from a browser, such as https://shop.example.org; * for all.",
    )
