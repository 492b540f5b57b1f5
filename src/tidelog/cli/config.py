"""`tidelog config`: what settings mean (`explain`), and the settings of a running cluster (all other verbs)."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "config",
        help="explain settings; show and change those of a running cluster",
        description="`explain` tells what settings mean and what a settings file would set, without a broker. The "
        "others show and change the settings of topics, brokers and groups of a running cluster.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    from tidelog.cli.cluster_configs import add_cluster_parsers
    from tidelog.cli.explain_settings import add_explain_parser

    add_explain_parser(verbs)
    add_cluster_parsers(verbs)
