"""Dashboard, alerts and scrape configuration name what nodes and pipelines really expose."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.exposed import TARGET_LABELS, Exposed, make_traffic, of_nodes, of_pipelines
from tests.deploy.promql import find_names
from tests.waiting import wait_until

from tidelog.config.listener import parse_address
from tidelog.testing import Cluster

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
SCHEMA_VERSION_MIN = 36
"""What Grafana 9 and later import."""
GRID_WIDTH = 24


def dashboard() -> Any:
    return json.loads((MONITORING / "grafana-dashboard.json").read_text())


def graphs() -> list[Any]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules() -> list[Any]:
    return [rule for group in load("alerts.yaml")["groups"] for rule in group["rules"]]


def load(name: str) -> Any:
    return yaml.safe_load((MONITORING / name).read_text())


def documented() -> dict[str, frozenset[str]]:
    """Metrics that docs/operations.md names, with the labels it gives them."""
    text = (ROOT / "docs" / "operations.md").read_text()
    found = re.findall(r"`((?:tidelog_|process_)\w+)(?:\{([^}]*)\})?`", text)
    return {name: frozenset(re.findall(r"(\w+)(?:=\"[^\"]*\")?(?:, |$)", labels)) for name, labels in found}


def expressions() -> list[str]:
    shown = [target["expr"] for panel in graphs() for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in rules())]


@pytest.fixture(scope="module")
def monitored() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"admin.listen": "127.0.0.1:0"}) as cluster:
        make_traffic(cluster)
        yield cluster


def test_every_metric_and_label_is_exposed(monitored: Cluster) -> None:
    wanted = {name for expression in expressions() for name, _ in find_names(expression).selected} - {"up"}
    assert len(wanted) > 30
    exposed: Exposed = {}

    def is_exposed() -> bool:
        exposed.update(of_nodes(monitored) | of_pipelines())
        return wanted <= exposed.keys()

    wait_until(is_exposed, lambda: f"metrics {sorted(wanted - exposed.keys())}", interval_s=0.05)
    exposed["up"] = frozenset()
    for expression in expressions():
        names = find_names(expression)
        known = TARGET_LABELS.union(*(exposed[name] for name, _ in names.selected))
        assert names.grouped <= known, f"{sorted(names.grouped - known)} cannot be grouped by: {expression}"
        for name, labels in names.selected:
            assert labels <= exposed[name] | TARGET_LABELS, f"{name} has no such label: {expression}"


def test_metrics_of_the_document_are_exposed(monitored: Cluster) -> None:
    exposed = of_nodes(monitored) | of_pipelines()
    # Of a histogram only its parts are samples.
    exposed |= {name.removesuffix("_count"): labels for name, labels in exposed.items() if name.endswith("_count")}
    named = documented()
    assert len(named) > 15
    for name, labels in named.items():
        assert name in exposed, f"{name} is not exposed"
        assert labels <= exposed[name], f"{name} has no labels {sorted(labels - exposed[name])}"


def test_legends_use_labels_that_are_left(monitored: Cluster) -> None:
    exposed = of_nodes(monitored) | of_pipelines()
    for panel in graphs():
        for target in panel["targets"]:
            used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            names = find_names(target["expr"])
            kept = names.grouped or TARGET_LABELS.union(*(exposed.get(name, frozenset()) for name, _ in names.selected))
            assert used <= kept, f"{panel['title']}: {sorted(used - kept)} are gone after the grouping"


def test_panels_have_titles_and_units_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= GRID_WIDTH, panel["title"]
    for panel in graphs():
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"], panel["title"]
        assert panel["targets"], panel["title"]
    for one, other in combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        is_beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        is_below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert is_beside or is_below, f"{one['title']} and {other['title']} overlap"


def test_the_dashboard_can_be_imported_anywhere() -> None:
    document = dashboard()
    assert document["schemaVersion"] >= SCHEMA_VERSION_MIN
    assert document["id"] is None
    variables = {variable["name"]: variable for variable in document["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for panel in graphs():
        for holder in (panel, *panel["targets"]):
            assert holder["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    used = set(re.findall(r"\$(\w+)", " ".join(expressions()))) - {"__rate_interval", "labels", "value"}
    assert used <= variables.keys()


def test_alerts_say_what_is_wrong_and_where_to_read_on() -> None:
    headings = set(re.findall(r"^#+ (.*)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE))
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        section = rule["annotations"].get("section")
        assert section is None or section in headings, f"{rule['alert']}: no heading {section!r}"


def test_the_scrape_configuration_names_the_rules_and_reachable_targets() -> None:
    document = load("prometheus.yaml")
    assert all((MONITORING / name).is_file() for name in document["rule_files"])
    jobs = {job["job_name"]: job for job in document["scrape_configs"]}
    selected = set(re.findall(r'job="([^"]*)"', " ".join(expressions())))
    assert selected <= jobs.keys()
    for job in jobs.values():
        for targets in job["static_configs"]:
            assert set(targets["labels"]) <= TARGET_LABELS
            assert all(parse_address(target) for target in targets["targets"])


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("missing: promtool (not on PATH)")
    shown = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "5m", target["expr"])}
        for number, target in enumerate(target for panel in graphs() for target in panel["targets"])
    ]
    panels = tmp_path / "panels.yaml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": shown}]}))
    for arguments in (["config", str(MONITORING / "prometheus.yaml")], ["rules", str(panels)]):
        done = subprocess.run([promtool, "check", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
