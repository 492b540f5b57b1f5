"""A new subject is one module and one line of the table: replay, delta, difference and snapshot follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.unit.metadata.images import cluster, replayed

from tidelog.metadata import table
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.sub_image import SubDelta
from tidelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from tidelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.message import Message


@dataclass(frozen=True, slots=True)
class UsersImage:
    names: frozenset[str] = frozenset()

    def records(self) -> Iterator[Message]:
        return (UserScramCredentialRecord(name=name) for name in sorted(self.names))


class UsersDelta(SubDelta[UsersImage]):
    __slots__ = ("_base", "_names", "changed")

    IMAGE = UsersImage

    def __init__(self, base: UsersImage) -> None:
        self._base = base
        self._names = base.names
        self.changed: frozenset[str] = frozenset()

    def replay_added(self, record: UserScramCredentialRecord) -> None:
        self._names |= {record.name}
        self.changed |= {record.name}

    def replay_removed(self, record: RemoveUserScramCredentialRecord) -> None:
        self._names -= {record.name}
        self.changed |= {record.name}

    def apply(self) -> UsersImage:
        return UsersImage(self._names)

    @property
    def is_empty(self) -> bool:
        return not self.changed

    @classmethod
    def between(cls, before: UsersImage, after: UsersImage) -> UsersDelta:
        delta = cls(after)
        delta.changed = before.names ^ after.names
        return delta

    REPLAYS = {UserScramCredentialRecord: replay_added, RemoveUserScramCredentialRecord: replay_removed}


@pytest.fixture
def with_users(monkeypatch: pytest.MonkeyPatch) -> None:
    sub_deltas = (*table.SUB_DELTAS, UsersDelta)
    monkeypatch.setattr(table, "SUB_DELTAS", sub_deltas)
    monkeypatch.setattr(table, "ROUTES", table.routes_of(sub_deltas))


@pytest.mark.usefixtures("with_users")
def test_a_subject_is_added_with_one_line() -> None:
    before = cluster()
    added = [UserScramCredentialRecord(name="a"), UserScramCredentialRecord(name="b")]
    image, delta = replayed(before, [*added, RemoveUserScramCredentialRecord(name="b")])
    assert image.part(UsersImage).names == {"a"}
    assert before.part(UsersImage).names == set()
    assert delta.part(UsersDelta).changed == {"a", "b"}
    assert image.with_controller(7).part(UsersImage).names == {"a"}

    again = replayed(MetadataImage(), image.records())[0]
    assert again.part(UsersImage) == image.part(UsersImage)
    assert again.brokers == image.brokers
    assert MetadataDelta.between(before, image).part(UsersDelta).changed == {"a"}
    assert not MetadataDelta.between(before, image).is_empty
    assert MetadataDelta.between(again, image).is_empty


def test_without_the_line_its_records_are_refused() -> None:
    with pytest.raises(UnreadableMetadata, match="UserScramCredentialRecord is not supported"):
        replayed(cluster(), [UserScramCredentialRecord(name="a")])


def test_a_subject_that_did_not_change_is_shared() -> None:
    before = cluster()
    after = MetadataDelta(before).apply(before.offset, before.epoch)
    for kind in table.SUB_DELTAS:
        assert after.part(kind.IMAGE) is before.part(kind.IMAGE)
