"""`python -m benchmarks.instructions`: processor instructions that a compiled `tidelog serve` takes for one request.

Instructions do not depend on how fast the machine is or what else it does, so that two commits are compared in minutes
to a fraction of a percent. They are not time: what the kernel, the caches and the disk take is not in them.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.checkouts import ROOT, UnknownCheckout, find_checkout
from benchmarks.instructions.counted_node import MissingValgrind
from benchmarks.instructions.counting import count_checkout
from benchmarks.instructions.requests import COUNTED_REQUESTS
from benchmarks.instructions.table import table

ROUNDS = 3


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--checkout",
        action="append",
        metavar="DIR_OR_COMMIT",
        help="a directory or a commit of this one (default: this checkout); several: all, with ratios to the first",
    )
    names = [request.name for request in COUNTED_REQUESTS]
    parser.add_argument("--case", action="append", choices=names, help="only this request (several times: these)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is counted (default {ROUNDS})")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    requests = [request for request in COUNTED_REQUESTS if not args.case or request.name in args.case]
    try:
        checkouts = [find_checkout(name) for name in args.checkout or [os.path.relpath(ROOT)]]
        counts = [(checkout.name, count_checkout(checkout, requests, args.rounds)) for checkout in checkouts]
    except (UnknownCheckout, MissingValgrind) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(counts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
