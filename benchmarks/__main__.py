"""`python -m benchmarks`: Tidelog beside a real Apache Kafka on this machine, with the same clients.

Starts and replays are measured first, each with fresh processes in turn. Then both brokers run, and only one at a time
has load: in every round each case runs on one and then on the other, in the next round the other way round. Before the
first round every case runs once in full on both, unmeasured, so that the JVM has compiled what it is measured by.

With `--against` the other broker is the Tidelog of another checkout, and what counts are the ratios of single rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.servers.apache_kafka import MissingTool, resolve_jars

from benchmarks import pairs
from benchmarks.cases import CASE_NAMES, NEED_JAVA, PARTS, REPEATED
from benchmarks.checkouts import ROOT, UnknownCheckout, find_checkout
from benchmarks.contenders import KAFKA, TIDELOG, Contender
from benchmarks.echo_case import ECHO
from benchmarks.figures import summarise
from benchmarks.progress import say
from benchmarks.report import RESULTS, table, write_results
from benchmarks.session import Extent, Session

KINDS = {contender.name: contender for contender in (KAFKA, TIDELOG)}
ROUNDS, PAIRED_ROUNDS, QUICK_ROUNDS = 3, 6, 1
THIS, OTHER = "this", "other"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--case", action="append", choices=CASE_NAMES, help="only this case (may be given several times)"
    )
    parser.add_argument("--part", choices=PARTS, help="only the cases of a single node, of groups or of a cluster")
    parser.add_argument("--only", choices=KINDS, help="only this broker; no ratios then")
    parser.add_argument(
        "--against",
        metavar="DIR_OR_COMMIT",
        help="beside the Tidelog of this checkout or commit instead of Kafka (default: cases that load one node and "
        "need no Java; nothing is kept)",
    )
    parser.add_argument(
        "--rounds", type=int, help=f"rounds of each case (default {ROUNDS}, --against {PAIRED_ROUNDS}, quick 1)"
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the records, one round; no verdict")
    parser.add_argument("--results", type=Path, help=f"where the results are kept (default benchmarks/{RESULTS.name})")
    parser.add_argument("--no-results", action="store_true", help="print the table and keep nothing")
    parser.add_argument("--data", type=Path, help="directory for the brokers' data (default: a temporary one)")
    args = parser.parse_args()
    if args.against and args.only:
        parser.error("--against measures two brokers, --only one")
    return args


def choose_cases(args: argparse.Namespace) -> list[str]:
    wanted = args.case or PARTS.get(args.part) or (REPEATED if args.against else CASE_NAMES)
    # The echo is there to be seen beside Kafka; there is no broker in it.
    return [name for name in wanted if not (args.against and name == ECHO)]


def choose_contenders(args: argparse.Namespace) -> list[Contender]:
    if not args.against:
        return [KINDS[args.only]] if args.only else [KAFKA, TIDELOG]
    checkouts = {THIS: str(ROOT), OTHER: args.against}
    return [Contender(name, program=find_checkout(place).program()) for name, place in checkouts.items()]


def main() -> int:
    args = parse_arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    wanted = choose_cases(args)
    try:
        if not args.against or NEED_JAVA.intersection(wanted):
            resolve_jars()
        contenders = choose_contenders(args)
    except (MissingTool, UnknownCheckout) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    share = 0.2 if args.quick else 1.0
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else PAIRED_ROUNDS if args.against else ROUNDS)
    extent = Extent(rounds, share, warm_up_share=share if args.against else 1.0)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=args.data) as directory:
        session = Session(contenders, extent, Path(directory))
        session.run(wanted)
    if args.against:
        print(pairs.table(pairs.pair_up(session.rounds, THIS, OTHER), THIS, args.against))
        return 0
    print(table(summarise(session.rounds)))
    if not args.no_results:
        options = {"rounds": str(rounds), "records": f"{share:.0%} of the full number", "cases": ", ".join(wanted)}
        path = write_results(session.rounds, options, args.results or RESULTS, part=args.part)
        say(f"kept in {path.parent.name}/{path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
