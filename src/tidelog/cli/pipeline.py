"""`tidelog pipeline`: judges, plans, runs, watches and stops pipelines that are written as YAML files.

`validate` needs neither Spark nor a broker; `plan` needs Spark; `status` and `stop` read and write small files in the
checkpoint of a running pipeline (see pipelines/run/state_files.py) and need neither.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.connection import FileVariables, add_address_arguments, connection_of
from tidelog.cli.errors import EXIT_FAILURE, CommandError
from tidelog.cli.output import note, print_json
from tidelog.cli.pipeline_init import add_init_parser
from tidelog.cli.signals import end_in_good_order

if TYPE_CHECKING:
    from tidelog.pipelines.spec.model import Pipeline

STOP_SECONDS_MAX = 120.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "pipeline",
        help="run pipelines of SQL and Python steps on Spark",
        description="Pipelines are YAML files with sources, steps and sinks; docs/pipelines.md describes them.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add_init_parser(verbs)
    validate = _add_verb(
        verbs, "validate", "check files, without Spark and without a broker", run_validate, several=True
    )
    plan = _add_verb(verbs, "plan", "show the graph and the schemas", run_plan)
    run = _add_verb(verbs, "run", "run it, and show how it goes", run_run)
    status = _add_verb(verbs, "status", "how the running pipeline does", run_status)
    stop = _add_verb(verbs, "stop", "end the running pipeline (a batch that is cut off runs again next time)", run_stop)
    for verb in (plan, run):
        add_address_arguments(verb)
    add_run_arguments(run)
    plan.add_argument("--master", metavar="URL", help="local[N], spark://, yarn, k8s:// or sc://; wins over the file")
    stop.add_argument(
        "--timeout", type=float, default=STOP_SECONDS_MAX, metavar="S", help="how long to wait (default 120)"
    )
    for verb in (validate, plan, status, stop):
        verb.add_argument("--json", action="store_true", help="one JSON document, for programs")


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, run: Any, *, several: bool = False
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    verb.add_argument("file", metavar="FILE", type=Path, nargs="+" if several else None)
    verb.set_defaults(run=run)
    return verb


# -- verbs ---------------------------------------------------------------------------------------------------------


def run_validate(args: argparse.Namespace) -> int:
    from tidelog.pipelines.spec.document import SpecError
    from tidelog.pipelines.spec.judge import can_judge_sql, find_problems
    from tidelog.pipelines.spec.read import read_pipeline

    documents = []
    for path in args.file:
        try:
            pipeline = read_pipeline(path, FileVariables(args))
            problems: list[Any] = find_problems(pipeline)
        except SpecError as error:
            problems = error.problems
            if error.readable is not None:
                # A key that is wrong does not hide a statement that is wrong.
                problems = sorted({*problems, *find_problems(error.readable)}, key=lambda problem: problem.line)
        documents.append(
            {
                "file": str(path),
                "ok": not problems,
                "sql_checked": can_judge_sql(),
                "problems": [problem._asdict() for problem in problems],
            }
        )
        if not args.json:
            for problem in problems:
                note(f"tidelog: {problem}")
            if not problems:
                parts = [(pipeline.sources, "source"), (pipeline.steps, "step"), (pipeline.sinks, "sink")]
                counts = ", ".join(f"{len(part)} {name}{'s' if len(part) != 1 else ''}" for part, name in parts)
                print(f"{path}: good ({counts})")
    if args.json:
        print_json(documents)
    elif not can_judge_sql():
        note("tidelog: SQL was not looked into: pip install 'tidelog[spark]' brings the parser for it")
    return 0 if all(document["ok"] for document in documents) else EXIT_FAILURE


def run_plan(args: argparse.Namespace) -> int:
    from tidelog.cli.pipeline_plan import make_plan, print_plan

    pipeline = load_connected(args)
    with explained(args.profile):
        plan = make_plan(pipeline, args.bootstrap, args.master)
    if args.json:
        print_json(plan)
    else:
        print_plan(plan)
    return 0


def run_run(args: argparse.Namespace) -> int:
    pipeline = load_connected(args)
    return run_with_view(args, pipeline, args.bootstrap)


def run_status(args: argparse.Namespace) -> int:
    from tidelog.cli.pipeline_view import print_statuses
    from tidelog.pipelines.run.state_files import StateFiles

    pipeline = load(args)
    files = StateFiles(pipeline.checkpoint)
    with explained():
        document = files.read_run()
    if document is None:
        raise CommandError(f"{pipeline.name} never ran with the checkpoint {pipeline.checkpoint}")
    document["running"] = files.is_running()
    if args.json:
        print_json(document)
        return 0
    seconds = max(0, time.time() - document["updated_ms"] / 1000)
    state = "running" if document["running"] else "not running"
    print(f"{pipeline.name}: {state} (process {document['pid']} on {document['host']}, written {seconds:.0f} s ago)")
    print_statuses(document["queries"], errors=True)
    return 0


def run_stop(args: argparse.Namespace) -> int:
    from tidelog.pipelines.run.state_files import StateFiles

    pipeline = load(args)
    files = StateFiles(pipeline.checkpoint)
    was_running = files.is_running()
    if was_running:
        files.ask_to_stop()
        deadline = time.monotonic() + args.timeout
        while files.is_running():
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{pipeline.name} did not end within {args.timeout:.0f} s; it was asked to and may yet"
                )
            time.sleep(0.1)
    if args.json:
        print_json({"pipeline": pipeline.name, "was_running": was_running})
    else:
        print(f"{pipeline.name} {'has ended' if was_running else 'was not running'}")
    return 0


# -- shared with the jobs --------------------------------------------------------------------------------------------


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command that runs queries has."""
    parser.add_argument("--master", metavar="URL", help="local[N], spark://, yarn, k8s:// or sc://")
    parser.add_argument(
        "--metrics-listen", metavar="HOST:PORT", help="serve Prometheus metrics there (127.0.0.1 when only a port)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="one JSON line per event, for programs")


def run_with_view(args: argparse.Namespace, pipeline: Pipeline, bootstrap: str) -> int:
    """Runs a pipeline in this process until it ends, is stopped, or has no query left."""
    from tidelog.cli.pipeline_view import make_view
    from tidelog.pipelines.run.metrics import MetricsServer
    from tidelog.pipelines.run.runner import PipelineRun

    view = make_view(pipeline, as_json=args.json, quiet=args.quiet)
    with explained(args.profile):
        run = PipelineRun(
            pipeline, bootstrap=bootstrap, master=args.master, report=view.report, show_rows=view.show_rows
        )
        view.watch(run.statuses)
        server = MetricsServer(args.metrics_listen, pipeline.name, run.statuses) if args.metrics_listen else None
        if server is not None:
            view.report(f"metrics on port {server.port}")
        try:
            with view, end_in_good_order(run.stop.set, view.break_off):
                well = run.run(view.tick)
        except BaseException:
            # What was done by then is worth knowing however the run ended.
            if any(status.batches for status in run.statuses):
                view.finish(False)
            raise
        finally:
            if server is not None:
                server.stop()
    view.finish(well)
    if well:
        return 0
    # The reason of each failure was printed when it happened.
    failed = [status.name for status in run.statuses if status.state == "failed"]
    what = "query" if len(run.statuses) == 1 else f"{len(failed)} of {len(run.statuses)} queries"
    raise CommandError(f"{what} failed: {', '.join(failed)}")


def load_connected(args: argparse.Namespace) -> Pipeline:
    """What is about to run, and in `args` the broker it talks to; client settings of the file win over a profile's."""
    variables = FileVariables(args)
    pipeline = load(args, variables, inside=True)
    chosen = connection_of(args, pipeline.bootstrap)
    if variables.given is not None and variables.given.bootstrap == chosen.bootstrap:
        # The file names the brokers of a profile by the variable: they need its settings.
        chosen = variables.given
    args.bootstrap, args.profile = chosen.bootstrap, chosen.profile
    return dataclasses.replace(pipeline, client={**chosen.client, **pipeline.client})


def load(args: argparse.Namespace, variables: FileVariables | None = None, *, inside: bool = False) -> Pipeline:
    """`inside`: SQL, types and modules are looked into as well, for what is about to run."""
    from tidelog.pipelines.spec.document import SpecError
    from tidelog.pipelines.spec.judge import find_problems
    from tidelog.pipelines.spec.read import read_pipeline

    try:
        pipeline = read_pipeline(args.file, variables or FileVariables(args))
        problems = find_problems(pipeline) if inside else []
        if problems:
            raise SpecError(problems)
    except SpecError as error:
        raise CommandError(str(error)) from None
    return pipeline


class explained:  # noqa: N801
    """`with explained():` turns what pipelines fail with into the one line of a command.

    A broker that does not answer is named with the profile that its address is from.
    """

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from tidelog.pipelines.errors import PipelineError, Unreachable

        if not isinstance(error, PipelineError) or os.environ.get("TIDELOG_DEBUG"):
            return
        sys.stdout.flush()
        away = error if isinstance(error, Unreachable) else error.__cause__
        if self._profile and isinstance(away, Unreachable) and away.who.startswith("no broker"):
            raise CommandError(f"{error} (the address is from profile {self._profile})") from None
        raise CommandError(str(error)) from None
