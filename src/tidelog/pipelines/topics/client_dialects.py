"""Security settings of Kafka clients, in the words of the Java client and in those of librdkafka (pure but for files).

A pipeline has both clients in it: Spark's connector is the Java client, the lanes and all that the driver asks are
librdkafka. Users write settings once, in either dialect; what a client does not know is translated for it, or left
out where it means nothing there: librdkafka refuses names it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tidelog.pipelines.errors import PipelineError

_LOGIN = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_LOGIN}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_LOGIN}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_LOGIN}.scram.ScramLoginModule",
}
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_JAVA_ONLY = (
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.login.",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.",
)
_LIBRDKAFKA_ONLY = (
    "enable.ssl.certificate.verification",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "ssl.ca.",
    "ssl.certificate.",
    "ssl.key.location",
    "ssl.key.pem",
)
_HOST_CHECK = "ssl.endpoint.identification.algorithm"


def java_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The settings for the Java client."""
    settings = {name: value for name, value in given.items() if not name.startswith(_LIBRDKAFKA_ONLY)}
    if "sasl.mechanisms" in given:
        settings.setdefault("sasl.mechanism", given["sasl.mechanisms"])
    if "sasl.username" in given and "sasl.jaas.config" not in given:
        settings["sasl.jaas.config"] = _jaas(
            settings.get("sasl.mechanism", ""), given["sasl.username"], given.get("sasl.password", "")
        )
    if settings.get(_HOST_CHECK) == "none":
        settings[_HOST_CHECK] = ""
    if not any(name.startswith("ssl.truststore.") for name in given):
        if "ssl.ca.location" in given:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": given["ssl.ca.location"]}
        elif "ssl.ca.pem" in given:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given["ssl.ca.pem"]}
    chain, key = _pem(given, "ssl.certificate"), _pem(given, "ssl.key")
    if chain and key and not any(name.startswith("ssl.keystore.") for name in given):
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }
    return settings


def librdkafka_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The settings for librdkafka."""
    settings = {name: value for name, value in given.items() if not name.startswith(_JAVA_ONLY)}
    if "sasl.jaas.config" in given:
        found = {name: _unquoted(quoted) or plain for name, quoted, plain in _JAAS_OPTION.findall(_jaas_options(given))}
        for name in ("username", "password"):
            if name in found:
                settings.setdefault(f"sasl.{name}", found[name])
    if settings.get(_HOST_CHECK) == "":
        settings[_HOST_CHECK] = "none"
    own = _own_certificate(given, settings)
    return settings | _trusted(given) | own


def _jaas(mechanism: str, username: str, password: str) -> str:
    module = _LOGIN_MODULES.get(mechanism.upper())
    if module is None:
        known = ", ".join(_LOGIN_MODULES)
        raise PipelineError(f"sasl.username needs sasl.mechanism, one of {known}, not {mechanism or 'none'}")
    return f"{module} required username={_quoted(username)} password={_quoted(password)};"


def _jaas_options(given: Mapping[str, str]) -> str:
    """What follows the name of the login module and its flag."""
    parts = given["sasl.jaas.config"].split(None, 2)
    return parts[2] if len(parts) == 3 else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _trusted(given: Mapping[str, str]) -> dict[str, str]:
    """The certificates that librdkafka trusts."""
    if "ssl.ca.location" in given or "ssl.ca.pem" in given:
        return {}
    if "ssl.truststore.certificates" in given:
        return {"ssl.ca.pem": given["ssl.truststore.certificates"]}
    if "ssl.truststore.location" not in given:
        return {}
    if given.get("ssl.truststore.type", "").upper() == "PEM":
        return {"ssl.ca.location": given["ssl.truststore.location"]}
    raise PipelineError(
        f"ssl.truststore.location {given['ssl.truststore.location']}: certificates are needed as PEM; "
        "give them as ssl.ca.location"
    )


def _own_certificate(given: Mapping[str, str], settings: dict[str, str]) -> dict[str, str]:
    """How librdkafka authenticates; a key store is taken out of `settings` where it is not PKCS #12."""
    kind = given.get("ssl.keystore.type", "PKCS12").upper()
    if any(name.startswith("ssl.certificate.") for name in given):
        settings.pop("ssl.keystore.location", None)
        settings.pop("ssl.keystore.password", None)
        return {}
    if "ssl.keystore.certificate.chain" in given and "ssl.keystore.key" in given:
        return {
            "ssl.certificate.pem": given["ssl.keystore.certificate.chain"],
            "ssl.key.pem": given["ssl.keystore.key"],
        }
    location = given.get("ssl.keystore.location")
    if location is None or kind == "PKCS12":
        return {}
    if kind != "PEM":
        raise PipelineError(
            f"ssl.keystore.location {location} is a {kind} store; give a PKCS12 or PEM one, "
            "or ssl.certificate.location and ssl.key.location"
        )
    del settings["ssl.keystore.location"]
    return {"ssl.certificate.location": location, "ssl.key.location": location}


def _pem(given: Mapping[str, str], name: str) -> str:
    """The text of a certificate or a key; empty when there is none."""
    if f"{name}.pem" in given:
        return given[f"{name}.pem"]
    if f"{name}.location" not in given:
        return ""
    path = given[f"{name}.location"]
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise PipelineError(f"{name}.location {path} cannot be read: {error}") from None
