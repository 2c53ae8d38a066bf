"""The chart and the compose file: linted by their own tools, rendered, and true to what the server does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnbuckle.config import load
from turnbuckle.observe.metrics import Metrics, ServerNow

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "turnbuckle"
COMPOSE = ROOT / "deploy" / "compose"
PROGRAMS = Path(sys.executable).parent
KUBERNETES = "1.37"


def ran(*words: str | Path) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*options: str) -> dict[str, dict[str, Any]]:
    """By kind: what the chart makes of its values."""
    text = ran(PROGRAMS / "helm", "template", "here", CHART, *options)
    found = [each for each in yaml.safe_load_all(text) if each]
    return {each["kind"]: each for each in found}


def container_of(made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return made["Deployment"]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.process
@pytest.mark.requirement("K10")
def test_the_chart_is_sound_and_kubernetes_would_take_what_it_makes():
    from kubernetes_validate import validate  # noqa: PLC0415 - comes with the clients, not for `make check`

    ran(PROGRAMS / "helm", "lint", "--strict", CHART)
    every = (
        "--set",
        "autoscaling.by=hpa",
        "--set",
        "secrets={keys,more}",
        "--set",
        "workspace.existingClaim=work",
    )
    for options in ((), (*every, "--set", "labels={disk-a}", "--set", "needs={disk-a}")):
        made = rendered(*options)
        for each in made.values():
            validate(each, KUBERNETES, strict=True)
        assert {"Deployment", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget"} <= made.keys()


@pytest.mark.process
@pytest.mark.requirement("K10")
def test_a_pod_has_no_rights_is_asked_whether_it_is_ready_and_has_time_to_hand_over():
    made = rendered("--set", "drain=40", "--set", "preStop=7")
    pod, container = made["Deployment"]["spec"]["template"]["spec"], container_of(made)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert not pod["automountServiceAccountToken"]
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "7"]
    assert pod["terminationGracePeriodSeconds"] > 40 + 7
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/data", "/workspace", "/tmp"}


@pytest.mark.process
@pytest.mark.requirement("K10", "R3")
def test_what_the_chart_sets_is_what_the_server_reads_and_no_secret_stands_in_it(tmp_path: Path):
    made = rendered(
        "--set", "labels={disk-a,gpu}", "--set", "workspace.perSession=true", "--set", "maxRuns=7"
    )
    given = {entry["name"]: entry.get("value", "") for entry in container_of(made)["env"]}
    secret = [entry for entry in container_of(made)["env"] if "valueFrom" in entry]
    assert {entry["name"] for entry in secret} == {"TURNBUCKLE_DATA", "TURNBUCKLE_NODE__NAME"}
    file = tmp_path / "turnbuckle.toml"
    file.write_text(made["ConfigMap"]["data"]["turnbuckle.toml"])
    address = "postgresql://user:word@host/name"
    settings = load(
        file, environment={**given, "TURNBUCKLE_DATA": address, "TURNBUCKLE_NODE__NAME": "p"}
    ).settings
    assert (settings.data, settings.files, settings.workspace) == (address, "/data", "/workspace")
    assert settings.workspace_per_session
    assert settings.node.labels == ("disk-a", "gpu")
    assert settings.node.max_runs == 7
    assert settings.server.drain == 20
    assert settings.server.api_keys == ("env:TURNBUCKLE_API_KEY",)


@pytest.mark.process
@pytest.mark.requirement("K10")
def test_servers_are_scaled_by_metrics_that_exist():
    metrics = Metrics()
    metrics.now(ServerNow(unheld=3))
    text = metrics.render().decode()
    assert "turnbuckle_runs_unheld 3.0" in text
    keda = rendered("--set", "autoscaling.by=keda", "--set", "autoscaling.prometheus=http://127.0.0.1:9090")
    [trigger] = keda["ScaledObject"]["spec"]["triggers"]
    hpa = rendered("--set", "autoscaling.by=hpa")["HorizontalPodAutoscaler"]
    query = trigger["metadata"]["query"] + hpa["spec"]["metrics"][0]["pods"]["metric"]["name"]
    named = {
        word for word in query.replace("(", " ").replace(")", " ").split() if word.startswith("turnbuckle_")
    }
    assert named
    assert all(f"# TYPE {name} gauge" in text for name in named)
    assert "replicas" not in keda["Deployment"]["spec"]


@pytest.mark.process
@pytest.mark.requirement("K10")
def test_the_compose_file_is_sound_and_its_servers_have_no_rights_and_time_to_hand_over():
    lint = ROOT / "tests" / "clients" / "node" / "node_modules" / ".bin" / "dclint"
    assert lint.exists(), "the linter of compose files is missing: scripts/set-up-clients gets it"
    told = ran(
        PROGRAMS / "node", lint, "--max-warnings", "0", "--formatter", "json", COMPOSE / "compose.yaml"
    )
    assert [problem for file in json.loads(told) for problem in file["messages"]] == []
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    server = services["server"]
    assert server["read_only"]
    assert server["cap_drop"] == ["ALL"]
    given = server["environment"]
    assert float(server["stop_grace_period"].removesuffix("s")) > float(given["TURNBUCKLE_SERVER__DRAIN"])
    assert all(given[name].startswith("${") for name in ("PGPASSWORD", "TURNBUCKLE_API_KEY"))
    settings = load(
        None, environment={name: text for name, text in given.items() if name != "TURNBUCKLE_API_KEY"}
    )
    assert settings.settings.data == "postgresql://turnbuckle@db/turnbuckle"
    assert "server:8765 check" in (COMPOSE / "haproxy.cfg").read_text()
    assert (ROOT / "Containerfile").read_text().count("[postgres,s3]") == 1
