"""Security settings that users write once reach the Java client and librdkafka in words that each knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.topics.broker import client_settings, connector_options, librdkafka_options
from tidelog.pipelines.topics.client_dialects import java_settings, librdkafka_settings
from tidelog.pipelines.topics.dead_letters import letter_settings
from tidelog.pipelines.topics.topic_sink import producer_settings

PASSWORD = 'a"b\\c; d=e'
SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": PASSWORD,
}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b\\\\c; d=e";'


def test_a_user_and_a_password_become_a_login_module() -> None:
    java = java_settings(SCRAM)
    assert java == {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
    assert librdkafka_settings(SCRAM) == SCRAM
    assert librdkafka_settings(java) == SCRAM
    plain = java_settings({"sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p"})
    assert plain["sasl.mechanism"] == "PLAIN"
    assert plain["sasl.jaas.config"].startswith("org.apache.kafka.common.security.plain.PlainLoginModule required ")
    with pytest.raises(PipelineError, match=r"sasl\.username needs sasl\.mechanism"):
        java_settings({"sasl.username": "u"})


def test_a_login_module_of_another_kind_is_for_java_only() -> None:
    given = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "org.example.Login required;"}
    assert java_settings(given) == given
    assert librdkafka_settings(given) == {"sasl.mechanism": "OAUTHBEARER"}
    bare = {"sasl.jaas.config": "a.B required username=ann password=secret;"}
    assert librdkafka_settings(bare) == {"sasl.username": "ann", "sasl.password": "secret"}


def test_certificates(tmp_path: Path) -> None:
    (tmp_path / "own.crt").write_text("CHAIN")
    (tmp_path / "own.key").write_text("KEY")
    given = {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": str(tmp_path / "own.crt"),
        "ssl.key.location": str(tmp_path / "own.key"),
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert librdkafka_settings(given) == given
    java = java_settings(given)
    assert java == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.keystore.key": "KEY",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert librdkafka_settings(java) == {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.pem": "CHAIN",
        "ssl.key.pem": "KEY",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    with pytest.raises(PipelineError, match=r"ssl\.key\.location /nowhere cannot be read"):
        java_settings({"ssl.certificate.pem": "x", "ssl.key.location": "/nowhere"})


def test_stores_that_only_java_reads_are_named() -> None:
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/own.pem"}
    assert librdkafka_settings(pem) == {"ssl.certificate.location": "/own.pem", "ssl.key.location": "/own.pem"}
    pkcs12 = {"ssl.keystore.location": "/own.p12", "ssl.keystore.password": "x", "ssl.keystore.type": "PKCS12"}
    assert librdkafka_settings(pkcs12) == {"ssl.keystore.location": "/own.p12", "ssl.keystore.password": "x"}
    with pytest.raises(PipelineError, match=r"give them as ssl\.ca\.location"):
        librdkafka_settings({"ssl.truststore.location": "/trust.jks"})
    both = {"ssl.truststore.location": "/trust.jks", "ssl.truststore.password": "x", "ssl.ca.location": "/ca.pem"}
    assert librdkafka_settings(both) == {"ssl.ca.location": "/ca.pem"}
    assert java_settings(both) == {"ssl.truststore.location": "/trust.jks", "ssl.truststore.password": "x"}
    with pytest.raises(PipelineError, match=r"is a JKS store"):
        librdkafka_settings({"ssl.keystore.location": "/own.jks", "ssl.keystore.type": "JKS"})


def test_the_connector_and_librdkafka_get_the_same_user() -> None:
    given = {"maxOffsetsPerTrigger": "5", "kafka.fetch.max.bytes": "10", **{f"kafka.{k}": v for k, v in SCRAM.items()}}
    connector = connector_options(given)
    assert connector["kafka.sasl.jaas.config"] == JAAS
    assert (connector["maxOffsetsPerTrigger"], connector["kafka.fetch.max.bytes"]) == ("5", "10")
    assert librdkafka_options(given) == librdkafka_options(connector) == SCRAM


def test_librdkafka_takes_what_it_is_given() -> None:
    """The real client: it refuses names it does not know."""
    from confluent_kafka.admin import AdminClient

    java = {**java_settings(SCRAM), "ssl.protocol": "TLSv1.3", "sasl.login.callback.handler.class": "a.B"}
    AdminClient(client_settings("127.0.0.1:1", {**java, "log_level": "0"}))


def test_producers_leave_the_size_of_a_record_to_the_topic() -> None:
    """A topic takes 1,048,588 bytes by default, librdkafka by itself less."""
    from confluent_kafka import Producer

    for settings in (producer_settings("127.0.0.1:1"), letter_settings("127.0.0.1:1")):
        producer = Producer({**settings, "log_level": 0})
        producer.produce("topic", bytes(1_048_000))
        producer.purge()
