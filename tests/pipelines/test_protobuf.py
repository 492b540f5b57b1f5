"""Protobuf by Spark's own functions, from messages that Google's library wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipelines.processes import HERE, RUN_TIMEOUT_S
from tests.pipelines.topics import Record, produce, read_all
from tests.servers.tools import missing

MakeTopic = Callable[..., str]


def describe(path: Path) -> Callable[..., bytes]:
    """Writes the descriptor file of a message with a number and a text, and returns how one is serialised."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="pair.proto", package="tidelog.test", syntax="proto3")
    pair = file.message_type.add(name="Pair")
    optional = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    pair.field.add(name="n", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32, label=optional)
    pair.field.add(name="s", number=2, type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING, label=optional)
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("tidelog.test.Pair"))
    return lambda **fields: bytes(message(**fields).SerializeToString())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_messages_of_a_descriptor_file(
    requirements: None, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, descriptor = make_topic(), tmp_path / "pair.desc"
    pair = describe(descriptor)
    bad = [b"\xff\xff\xff", b"\x0a"]
    good = [pair(n=1, s="one"), pair(n=2), pair(), None]
    produce(bootstrap, topic, [Record(value=value) for value in (*good, *bad)])
    done = subprocess.run(
        [sys.executable, str(HERE / "protobuf_reader.py"), bootstrap, topic, str(descriptor)],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    if "missing" in found:
        missing(found["missing"])
    assert found["values"] == [{"n": 1, "s": "one"}, {"n": 2, "s": ""}, {"n": 0, "s": ""}, None]
    assert [letter.value for letter in read_all(bootstrap, f"{topic}.dead-letters")] == bad
