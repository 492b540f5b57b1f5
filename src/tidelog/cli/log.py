"""`tidelog log`: what lies in segment files, and whether it is intact; needs no broker and changes nothing."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import EXIT_FAILURE, CommandError
from tidelog.cli.output import Progress, format_bytes, format_count, note, print_json
from tidelog.cli.record_format import put_content

if TYPE_CHECKING:
    from tidelog.cli.internal_records import DecodedRecord, Decoder
    from tidelog.records.batch import BatchHeader
    from tidelog.records.record import Record
    from tidelog.storage.inspect import LogReport

VALUE_CHARACTERS_SHOWN = 200


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("log", help="dump and verify log segments offline")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    dump = verbs.add_parser("dump", help="show the batches of a segment, or the entries of an index")
    dump.add_argument(
        "path",
        metavar="PATH",
        help="a .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint file, or a partition",
    )
    dump.add_argument(
        "--records",
        action="store_true",
        help="open the batches and show every record; those of internal topics by their fields",
    )
    dump.add_argument("--json", action="store_true", help="one JSON document per line")
    dump.set_defaults(run=run_dump)

    verify = verbs.add_parser(
        "verify", help="check checksums, offsets and indexes; exit code 1 when something is damaged"
    )
    verify.add_argument("directory", metavar="DIR", help="a partition, or a data directory with many")
    verify.add_argument("--records", action="store_true", help="also open every batch and check its records")
    verify.add_argument("--json", action="store_true", help="one JSON document")
    verify.set_defaults(run=run_verify)


def run_verify(args: argparse.Namespace) -> int:
    from tidelog.storage.inspect import find_logs, verify_log

    if not os.path.isdir(args.directory):
        raise CommandError(f"{args.directory} is not a directory")
    logs = find_logs(args.directory)
    if not logs:
        raise CommandError(f"there is no log in {args.directory}")
    reports: list[LogReport] = []
    progress = Progress("bytes", enabled=not args.json)
    done = 0
    for directory in logs:
        report = verify_log(directory, open_records=args.records, progress=lambda read: progress.update(done + read))  # noqa: B023
        done += report.size_bytes
        reports.append(report)
    progress.close()
    damaged = sum(1 for report in reports if any(problem.is_damage for problem in report.problems))
    if args.json:
        print_json({"damaged": damaged, "logs": [_describe_report(report) for report in reports]})
    else:
        _print_reports(reports, damaged)
    return EXIT_FAILURE if damaged else 0


def _print_reports(reports: list[LogReport], damaged: int) -> None:
    for report in reports:
        for problem in report.problems:
            print(f"{'damage' if problem.is_damage else 'remark'}: {problem}")
    batches = sum(report.batches for report in reports)
    size_bytes = sum(report.size_bytes for report in reports)
    verdict = f"{damaged} damaged" if damaged else "all intact"
    print(
        f"{len(reports)} logs, {sum(report.segments for report in reports)} segments, {format_count(batches)} batches, "
        f"{format_count(sum(report.records for report in reports))} records, {format_bytes(size_bytes)}: {verdict}"
    )


def _describe_report(report: LogReport) -> dict[str, Any]:
    document = report._asdict()
    document["problems"] = [
        {"path": problem.path, "message": problem.message, "damage": problem.is_damage} for problem in report.problems
    ]
    return document


def run_dump(args: argparse.Namespace) -> int:
    path: str = args.path
    if os.path.isdir(path):
        files = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".log"))
        if not files:
            below = [name for name in os.listdir(path) if os.path.isdir(os.path.join(path, name))]
            hint = f"; name one of its {len(below)} directories" if below else ""
            raise CommandError(f"there is no segment in {path}{hint}")
    elif os.path.isfile(path):
        files = [path]
    else:
        raise CommandError(f"{path} does not exist")
    code = 0
    for file in files:
        if len(files) > 1 and not args.json:
            print(f"# {file}")
        code |= _dump_file(file, args)
    return code


def _dump_file(path: str, args: argparse.Namespace) -> int:
    from tidelog.raft.snapshot_file import parse_snapshot_name
    from tidelog.storage.files import offset_of_name

    name = os.path.basename(path)
    if parse_snapshot_name(name) is not None:
        # Of the metadata. It is named by where it ends; its own batches count from 0.
        return _dump_batches(path, 0, args)
    base_offset = offset_of_name(name)
    if base_offset is None:
        raise CommandError(f"{path} is not named by an offset, as files of a log are")
    kind = name[20:].split(".")[1]
    if kind == "log":
        return _dump_batches(path, base_offset, args)
    entries = _index_entries(path, base_offset, kind)
    for entry in entries:
        print(json.dumps(entry) if args.json else _as_fields(entry))
    return 0


def _index_entries(path: str, base_offset: int, kind: str) -> Iterator[dict[str, Any]]:
    from tidelog.storage.errors import CorruptIndex, CorruptSnapshot
    from tidelog.storage.offset_index import ENTRY as OFFSET_ENTRY
    from tidelog.storage.producer_snapshot import decode_snapshot
    from tidelog.storage.time_index import ENTRY as TIME_ENTRY
    from tidelog.storage.txn_index import TxnIndex

    with open(path, "rb") as file:
        content = file.read()
    try:
        if kind == "index":
            for relative, position in OFFSET_ENTRY.iter_unpack(content):
                yield {"offset": base_offset + relative, "position": position}
        elif kind == "timeindex":
            for timestamp, relative in TIME_ENTRY.iter_unpack(content):
                yield {"timestamp": timestamp, "offset": base_offset + relative}
        elif kind == "txnindex":
            for aborted in TxnIndex(path, base_offset).load():
                yield aborted._asdict()
        elif kind == "snapshot":
            for producer in decode_snapshot(content):
                yield producer._asdict()
        else:
            raise CommandError(f"{path} is no file of a segment")
    except (CorruptIndex, CorruptSnapshot) as error:
        raise CommandError(f"{path} is damaged: {error}") from None
    except StructError:
        raise CommandError(f"{path} is damaged: its size {len(content)} is not a multiple of an entry's") from None


def _dump_batches(path: str, base_offset: int, args: argparse.Namespace) -> int:
    from tidelog.cli.internal_records import decoder_of
    from tidelog.records.batch import verify_crc
    from tidelog.storage.scan import SegmentScan
    from tidelog.storage.segment_file import READ, SegmentFile

    scan = SegmentScan(SegmentFile(path, READ), base_offset)
    decode = decoder_of(path)
    code = 0
    for position, header in scan:
        batch = scan.batch(position, header)
        is_valid = verify_crc(batch, 0, header)
        document = _describe_batch(position, header, is_valid)
        if not is_valid:
            code = EXIT_FAILURE
        if args.json:
            if args.records:
                document["records"] = list(_describe_records(batch, decode, _put_for_programs))
            print(json.dumps(document, ensure_ascii=False))
            continue
        print(_as_fields(document))
        if args.records:
            for record in _describe_records(batch, decode, _put_for_people):
                print("  " + _as_fields(record))
    if scan.problem is not None:
        note(f"{path}: position {scan.valid_bytes}: {scan.problem}")
        return EXIT_FAILURE
    return code


def _describe_batch(position: int, header: BatchHeader, is_valid: bool) -> dict[str, Any]:
    from tidelog.codec.compression import CompressionType

    compression = header.compression_type
    document: dict[str, Any] = {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size": header.size_in_bytes,
        "compression": CompressionType(compression).name.lower()
        if compression <= CompressionType.ZSTD
        else compression,
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.partition_leader_epoch,
        "crc": f"{header.crc:08x}",
        "valid": is_valid,
    }
    if header.producer_id >= 0:
        document.update(
            producer_id=header.producer_id, producer_epoch=header.producer_epoch, base_sequence=header.base_sequence
        )
    if header.is_transactional:
        document["transactional"] = True
    if header.is_control:
        document["control"] = True
    if header.has_delete_horizon:
        document["delete_horizon"] = header.base_timestamp
    return document


def _describe_records(
    batch: memoryview, decode: Decoder | None, put: Callable[[dict[str, Any], Record, DecodedRecord | None], None]
) -> Iterator[dict[str, Any]]:
    from tidelog.cli.internal_records import decode_control_record
    from tidelog.model.errors import BrokerError
    from tidelog.raft.entries import LEARNERS_CONTROL_TYPE
    from tidelog.records.batch import decode_header
    from tidelog.records.control import ControlType, decode_control_type
    from tidelog.records.record import iterate_records

    is_control = decode_header(batch).is_control
    names: dict[int, str] = {member: member.name.lower() for member in ControlType}
    names[LEARNERS_CONTROL_TYPE] = "learners"
    try:
        for record in iterate_records(batch):
            document: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
            if is_control:
                kind = decode_control_type(record.key)
                document["control"] = names.get(kind, kind)
                put(document, record, decode_control_record(record))
            else:
                put(document, record, None if decode is None else decode(record))
            yield document
    except BrokerError as error:
        yield {"error": error.message}


def _put_for_programs(document: dict[str, Any], record: Record, decoded: DecodedRecord | None) -> None:
    """As `tidelog consume --json` does, but for what is decoded."""
    if decoded is not None:
        document.update(decoded.document())
    else:
        put_content(document, "key", record.key)
        put_content(document, "value", record.value)
    if record.headers:
        document["headers"] = []
        for name, value in record.headers:
            document["headers"].append({"name": name})
            put_content(document["headers"][-1], "value", value)


def _put_for_people(document: dict[str, Any], record: Record, decoded: DecodedRecord | None) -> None:
    if decoded is not None:
        for name, content in decoded.document().items():
            if isinstance(content, dict):
                document.update({f"{name}.{field}": value for field, value in content.items()})
            elif content is not None or name == "value":
                document[name] = content
    else:
        document["key"] = _as_text(record.key)
        document["value"] = _as_text(record.value)
    if record.headers:
        document["headers"] = {name: _as_text(value) for name, value in record.headers}


def _as_text(content: bytes | None) -> str | None:
    """Text as it is, other bytes in hexadecimal behind `0x`."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "0x" + content.hex()
    return text if text.isprintable() else "0x" + content.hex()


def _as_fields(document: dict[str, Any]) -> str:
    """`name=value` pairs on one line; long values are cut, since JSON has them in full."""
    return " ".join(f"{name}={_shown(value)}" for name, value in document.items())


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    if isinstance(value, dict | list) or " " in text or not text.isprintable():
        text = json.dumps(value, ensure_ascii=False)
        # Names of groups and members are what clients chose, and must not steer the terminal either.
        text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return (
        text if len(text) <= VALUE_CHARACTERS_SHOWN else f"{text[:VALUE_CHARACTERS_SHOWN]}... ({len(text)} characters)"
    )
