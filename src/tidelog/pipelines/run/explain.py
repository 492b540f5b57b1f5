"""Turns what Spark, Kafka's client and the system throw into one line that names the place and says what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidelog.pipelines.errors import PipelineError, Unreachable
from tidelog.pipelines.run.restarts import Failure
from tidelog.pipelines.spark.spark_errors import ask, explain_analysis, first_line
from tidelog.pipelines.spec.graph import upstream
from tidelog.pipelines.spec.model import FilesSource, Pipeline, Relation, Sink, SqlStep, TopicSink, TopicSource
from tidelog.pipelines.topics.broker import is_reachable

RULE_MARK = "TIDELOG-RULE|"
"""Opens the message of the error that a row raises when it does not meet a rule that must be met."""

_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)|; line (\d+) pos (\d+)")
_LINE_CHARACTERS_MAX = 500


def place_of(pipeline: Pipeline, line: int) -> str:
    """File and line; a pipeline that is no file has no lines."""
    return f"{pipeline.path} line {line}" if line else str(pipeline.path)


# -- while frames are built ------------------------------------------------------------------------------------------


def explain_frame_error(pipeline: Pipeline, relation: Relation, error: Exception, line: int = 0) -> PipelineError:
    """What is wrong with a source, step, rule or watermark of the file."""
    kind = "source" if relation.name in pipeline.sources else "step"
    where = line or relation.line
    if not line and isinstance(relation, SqlStep):
        where = relation.sql_line + _line_in_sql(relation.sql, error)
        where = where if relation.line else 0
    elif not line and isinstance(relation, TopicSource | FilesSource) and _is_about_schema(error):
        where = relation.schema_line or where
        if isinstance(relation, TopicSource) and str(error).startswith("key "):
            where = relation.key_schema_line or relation.line
    text = f"{kind} {relation.name}: {explain_analysis(error)}"
    return PipelineError(f"{place_of(pipeline, where)}: {text}")


def _is_about_schema(error: Exception) -> bool:
    return type(error).__name__ == "ParseException" or " schema " in str(error)


def _line_in_sql(sql: str, error: Exception) -> int:
    """Which line of a statement an error is about, counted from 0."""
    contexts = ask(error, "getQueryContext") or []
    for context in contexts:
        try:
            return sql.count("\n", 0, max(int(context.startIndex()), 0))
        except Exception:
            break
    found = _POSITION.search(str(error))
    return int(found[1] or found[3]) - 1 if found else 0


# -- while queries run -----------------------------------------------------------------------------------------------

_RULE = re.compile(re.escape(RULE_MARK) + r"([^|]+)\|([^|]+)\|(.*)")
_LOST_TOPIC = re.compile(r"(UnknownTopicOrPartition|does not host this topic-partition|UnknownTopicIdException)")
_LOST_DATA = re.compile(
    r"(KAFKA_DATA_LOSS|[Ss]ome data may have been lost|[Dd]ata loss|OffsetOutOfRange"
    r"|partitions? .* (?:was|were) deleted"
    r"|Partitions? .* (?:gone|lost|missing)|offset was changed from|Cannot fetch offset)"
)
_LOSS_REASON = re.compile(r"^Reason: (.*)$", re.MULTILINE)
_AWAY = re.compile(
    r"(Timed out waiting for a node assignment|Timeout of \d+ms expired|TimeoutException|DisconnectException"
    r"|_TRANSPORT|_ALL_BROKERS_DOWN|_TIMED_OUT|Broker transport failure|brokers? (?:are )?down|Connection refused"
    r"|Failed to (?:construct kafka|create new KafkaAdminClient)|Local: Timed out"
    r"|Cannot fetch record for offset \d+ in \d+ milliseconds)"
)
_DISK = re.compile(r"(No space left on device|ENOSPC|Disk quota exceeded)")
_STATE = re.compile(r"\[((?:STATE_STORE|STREAMING_STATEFUL|STATE_SCHEMA|INVALID_STREAMING)\w*(?:\.\w+)*)\]([^\n]*)")
_OURS = re.compile(r"^tidelog\.pipelines\.errors\.(?:PipelineError|MissingRequirement): ([^\n]+)", re.MULTILINE)
"""How an error that was raised while a batch was written comes out of Spark: as the last line of a stack in a text."""
_PARSE = re.compile(r"(bad record in topic [^\n]*)")
_DATA = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)*\] ([^\n]*?)(?: If necessary set [^\n]*?)? SQLSTATE: 22\w{3}")
"""Data exceptions of SQL (a division by zero, a text that is no number): the same rows fail the same way again."""
_SQL_CONTEXT = re.compile(r"^== SQL[^\n]*\(line (\d+), position \d+\) ==\n([^\n]*)", re.MULTILINE)
"""Which line of which statement Spark was at; of a long line it shows a part between dots."""


def explain_query_failure(pipeline: Pipeline, sink: Sink, error: BaseException, bootstrap: str) -> Failure:
    """Why the query of a sink ended, and whether another attempt can help."""
    text = _whole_text(error)
    place = f"{place_of(pipeline, sink.line)}: sink {sink.name}"
    rule = _RULE.search(text)
    if rule:
        return Failure(text=_explain_rule(pipeline, rule[1], rule[2], rule[3]), kind="fatal")
    if _DISK.search(text):
        return Failure(text=f"{place}: a disk is full: {_line_with(text, _DISK)}; nothing was lost, free some space")
    away = _who_is_away(error, text, bootstrap)
    if away:
        reason = f"{away}; nothing was lost, reading goes on when it is back"
        return Failure(text=f"{place}: {reason}", kind="unreachable")
    if isinstance(error, PipelineError):
        return Failure(text=f"{place}: {first_line(error)}", kind="fatal")
    ours = _OURS.findall(text)
    if ours:
        return Failure(text=f"{place}: {first_line(ours[-1])}", kind="fatal")
    if _LOST_TOPIC.search(text) or _LOST_DATA.search(text):
        return Failure(text=f"{place}: {_explain_loss(text, _topics(pipeline, sink))}", kind="fatal")
    parse = _PARSE.search(text)
    if parse:
        return Failure(text=f"{place}: {first_line(parse[1])}", kind="fatal")
    data = _DATA.search(text)
    if data:
        where = _place_in_sql(pipeline, sink, text) or place
        return Failure(text=f"{where}: {first_line(data[1])}; a row that has been read is like that", kind="fatal")
    state = _STATE.search(text)
    if state:
        advice = "the checkpoint cannot follow; take the change back or name a new `checkpoint:`"
        return Failure(text=f"{place}: {first_line(state[2] or state[1])}; {advice}", kind="fatal")
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return Failure(text=f"{place}: {explain_analysis(error)}", kind="fatal")  # type: ignore[arg-type]
    if _topics(pipeline, sink) and not is_reachable(bootstrap):
        reason = f"no broker answers at {bootstrap} ({_root_cause(text)})"
        return Failure(text=f"{place}: {reason}; nothing was lost, reading goes on when it is back", kind="unreachable")
    return Failure(text=f"{place}: {_root_cause(text)}")


def _who_is_away(error: BaseException, text: str, bootstrap: str) -> str:
    """Empty unless it was a broker or a registry that did not answer."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, Unreachable):
            return seen.who
        seen = seen.__cause__
    return f"no broker answers at {bootstrap}" if _AWAY.search(text) and not is_reachable(bootstrap) else ""


def _whole_text(error: BaseException) -> str:
    """Message and causes; what came out of a Python function in a batch has the interesting part far down."""
    parts = [str(error)]
    seen = error.__cause__ or error.__context__
    while seen is not None and len(parts) < 10:
        parts.append(str(seen))
        seen = seen.__cause__ or seen.__context__
    return "\n".join(parts)


def _explain_rule(pipeline: Pipeline, relation_name: str, rule_name: str, row: str) -> str:
    relation = pipeline.relation(relation_name)
    rule = next(rule for rule in relation.rules if rule.name == rule_name)
    shown = row.split(" SQLSTATE")[0].strip()[:300]
    advice = "correct the data, or let the rule drop such rows (`otherwise: drop`)"
    return f"{place_of(pipeline, rule.line)}: rule {rule.name} ({rule.expect}) is not met by {shown}; {advice}"


def _place_in_sql(pipeline: Pipeline, sink: Sink, text: str) -> str:
    """The statement or rule, with its line, that failed while rows went through it; empty if it is not known."""
    for number, shown in _SQL_CONTEXT.findall(text):
        part = shown.strip(". ")
        for relation in (pipeline.relation(name) for name in upstream(pipeline, sink.input)):
            lines = relation.sql.splitlines() if isinstance(relation, SqlStep) else []
            if isinstance(relation, SqlStep) and part in "".join(lines[int(number) - 1 : int(number)]):
                line = relation.sql_line + int(number) - 1 if relation.line else 0
                return f"{place_of(pipeline, line)}: step {relation.name}"
            for rule in relation.rules:
                if part in rule.expect:
                    return f"{place_of(pipeline, rule.line)}: rule {rule.name}"
    return ""


def _topics(pipeline: Pipeline, sink: Sink) -> list[str]:
    """The topics that the query of a sink reads and writes."""
    parts = [pipeline.relation(name) for name in upstream(pipeline, sink.input)]
    read = [topic for part in parts if isinstance(part, TopicSource) for topic in part.topics]
    return [*read, sink.topic] if isinstance(sink, TopicSink) else read


def _explain_loss(text: str, topics: Sequence[str]) -> str:
    reason = _LOSS_REASON.search(text)
    pattern = _LOST_DATA if _LOST_DATA.search(text) else _LOST_TOPIC
    what = reason[1] if reason else first_line(_line_with(text, pattern))
    if not any(topic in what for topic in topics):
        what = f"topic {' or '.join(topics)}: {what}"
    advice = (
        "records were deleted before they were read (or the topic is gone); the query stands still so that it "
        "is not overlooked; `on-data-loss: continue` in the source goes on with what is left"
    )
    return f"{what}: {advice}"


def _line_with(text: str, pattern: re.Pattern[str]) -> str:
    return next((line.strip() for line in text.splitlines() if pattern.search(line)), "")[:_LINE_CHARACTERS_MAX]


def _root_cause(text: str) -> str:
    """The deepest cause that Java or Python names, else the first line."""
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    if causes:
        return first_line(causes[-1].removeprefix("Caused by: "))
    ends = [line for line in text.splitlines() if re.match(r"^[\w.]*(?:Error|Exception)\b: ", line.strip())]
    return first_line(ends[-1]) if ends else first_line(text)
