"""Dockerfile and compose files without a Docker daemon: commands parse, addresses agree, data is on a volume."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.deploy.containers import DOCKER, ROOT, Service, read_compose, read_dockerfile

from tidelog.cli.main import build_parser
from tidelog.cli.serve import STOP_SECONDS_MAX, collect_settings
from tidelog.config.listener import parse_address

COMPOSE_FILES = ("compose.yaml", "compose-cluster.yaml")


def services() -> list[Service]:
    return [service for name in COMPOSE_FILES for service in read_compose(name)]


def test_the_image_runs_a_node_as_process_1_without_root() -> None:
    image = read_dockerfile()[-1]
    assert image.exec_form("ENTRYPOINT") == ["tidelog"]
    args = build_parser("serve").parse_args(image.exec_form("CMD"))
    config = collect_settings(args, {})[0].config
    assert image.last("USER").partition(":")[0] not in ("", "0", "root")
    assert config.data_directory == image.last("VOLUME")
    assert config.admin_listen is not None
    ports = {listener.port for listener in config.bound_listeners} | {parse_address(config.admin_listen)[1]}
    assert {int(port) for port in image.last("EXPOSE").split()} == ports
    assert image.instructions.index(("USER", image.last("USER"))) > max(
        index for index, (name, _) in enumerate(image.instructions) if name == "RUN"
    )


def test_the_health_check_is_a_program_that_asks_whether_the_node_is_ready() -> None:
    image = read_dockerfile()[-1]
    program, option, code = image.exec_form("HEALTHCHECK")
    assert (program, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    admin = build_parser("serve").parse_args(image.exec_form("CMD")).admin
    assert f":{parse_address(admin)[1]}/readyz" in code


def test_images_are_pinned_to_one_python_and_one_system() -> None:
    """A library compiled in one stage has to run in the other."""
    bases = [re.fullmatch(r"python:(\d\.\d+)(?:-slim)?-(\w+)", stage.image) for stage in read_dockerfile()]
    assert len({found.groups() for found in bases if found is not None}) == 1
    assert None not in bases
    assert "-slim-" in read_dockerfile()[-1].image


def test_what_is_copied_is_there_and_let_in() -> None:
    lines = [
        line for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] not in ("", "#")
    ]
    assert lines[0] == "*", "everything stays out but what is named"
    let_in = [line[1:] for line in lines if line.startswith("!")]
    assert [name for name in let_in if not (ROOT / name).exists()] == []
    stages = read_dockerfile()
    names = {stage.name for stage in stages}
    for stage in stages:
        for copied in stage.all("COPY"):
            *sources, _ = copied.split()
            if sources[0].startswith("--from="):
                assert sources[0].removeprefix("--from=") in names
            else:
                assert all(source == "." or source.partition("/")[0] in let_in for source in sources)


def test_the_build_gets_all_that_the_package_is_built_from() -> None:
    """What pyproject.toml and the build hook name, or the wheel would lack it."""
    lines = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    needed = {"src", "examples", "tools", "requirements", "pyproject.toml", "README.md", "LICENSE", ".gitignore"}
    assert needed <= let_in
    left_out = [line for line in lines[1:] if line and line[0] not in "!#*"]
    assert any(fnmatch.fnmatch("src/tidelog/_compiled", pattern) for pattern in left_out)


@pytest.mark.parametrize("service", services(), ids=lambda service: service.name)
def test_a_service_is_a_node_that_can_be_reached(service: Service) -> None:
    config = service.config
    assert config.data_directory in service.mounts
    assert config.admin_listen is not None
    inside = {listener.name: listener.port for listener in config.bound_listeners}
    advertised = {listener.name: (listener.host, listener.port) for listener in config.effective_advertised_listeners}
    assert advertised["INTERNAL"] == (service.name, inside["INTERNAL"])
    host, port = advertised["HOST"]
    assert host == "localhost"
    assert service.published.get(port) == inside["HOST"], "clients are sent to a port that is not published"
    admin_port = parse_address(config.admin_listen)[1]
    health = read_dockerfile()[-1].exec_form("HEALTHCHECK")[-1]
    assert f":{admin_port}/" in health
    assert set(service.published.values()) == {inside["HOST"], admin_port}


@pytest.mark.parametrize("service", services(), ids=lambda service: service.name)
def test_a_service_is_built_here_and_has_time_to_stop(service: Service) -> None:
    build = service.raw["build"]
    context = (DOCKER / build["context"]).resolve()
    assert context == ROOT.resolve()
    assert (context / build["dockerfile"]).is_file()
    assert float(service.raw["stop_grace_period"].removesuffix("s")) >= 2 * STOP_SECONDS_MAX
    assert service.raw["restart"] == "on-failure"
    assert service.raw["ulimits"]["nofile"] >= 16_384


def test_the_nodes_of_the_cluster_know_one_another() -> None:
    nodes = read_compose("compose-cluster.yaml")
    assert len(nodes) == 3
    configs = {node.config.node_id: node.config for node in nodes}
    assert configs.keys() == {1, 2, 3}
    internal = {
        f"{node_id}@{listener.host}:{listener.port}"
        for node_id, config in configs.items()
        for listener in config.effective_advertised_listeners
        if listener.name == config.inter_node_listener_name
    }
    assert all(set(config.controller_quorum_voters) == internal for config in configs.values())
    ports = [port for node in nodes for port in node.published]
    assert len(set(ports)) == len(ports)
    for config in configs.values():
        assert config.default_replication_factor == 3
        assert config.min_insync_replicas == 2


def test_one_node_alone_syncs_what_it_acknowledges() -> None:
    [node] = read_compose("compose.yaml")
    assert node.config.topic_defaults.tidelog_flush == "ack"


def test_compose_files_have_no_key_twice() -> None:
    """PyYAML keeps the last one and says nothing."""

    class Strict(yaml.SafeLoader):
        pass

    def construct(loader: yaml.SafeLoader, node: yaml.MappingNode) -> object:
        keys = [key.value for key, _ in node.value if key.value != "<<"]
        assert len(set(keys)) == len(keys), f"line {node.start_mark.line + 1}: a key is there twice"
        loader.flatten_mapping(node)
        return dict(loader.construct_pairs(node, deep=True))

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, construct)
    for name in COMPOSE_FILES:
        assert yaml.load((DOCKER / name).read_text(), Strict)


def test_hadolint_finds_nothing_wrong() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("missing: hadolint (not on PATH)")
    linted = subprocess.run([hadolint, str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout


def test_paths_in_the_comments_are_those_of_the_files() -> None:
    for name in ("Dockerfile", *COMPOSE_FILES):
        text = (DOCKER / name).read_text()
        named = re.findall(r"--file (\S+)", text)
        assert [ROOT / path for path in named] == [Path(DOCKER / name)]
