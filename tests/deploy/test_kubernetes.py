"""The manifests: Kubernetes knows every field, the node reads its configuration, and all files agree."""

import json
import re
from pathlib import Path

import pytest
import yaml
from support.image import read_steps

from degroot.node.config import read
from degroot.node.server.status import LIVE, READY

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))}
POD = MANIFESTS["statefulset"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
STEPS = read_steps((DEPLOY / "Containerfile").read_text())
VERSIONS = ("1.29", "1.31", "1.33")


@pytest.fixture
def configuration(tmp_path):
    (tmp_path / "node.toml").write_text(MANIFESTS["configmap"]["data"]["node.toml"])
    return read(tmp_path / "node.toml")


def list_told(word):
    return [told for each, told in STEPS if each == word]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_knows_every_field(name, version):
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed: make linters")
    assert validator.validate(MANIFESTS[name], version, strict=True) == version
    with pytest.raises(validator.ValidationError):
        validator.validate({**MANIFESTS[name], "specs": {}}, version, strict=True)  # it does look


def test_there_is_one_node_of_that_name_at_a_time():
    spec = MANIFESTS["statefulset"]["spec"]
    assert (MANIFESTS["statefulset"]["kind"], spec["replicas"]) == ("StatefulSet", 1)
    assert spec["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_everything_selects_the_same_pod():
    labels = POD["metadata"]["labels"]
    assert MANIFESTS["statefulset"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["service"]["spec"]["selector"] == labels
    assert MANIFESTS["networkpolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert MANIFESTS["service"]["spec"]["publishNotReadyAddresses"]  # or no quorum ever comes about


def test_the_pod_has_no_rights_and_writes_only_where_it_must():
    spec, security = POD["spec"], CONTAINER["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    written = {each["mountPath"] for each in CONTAINER["volumeMounts"] if not each.get("readOnly")}
    assert written == {"/tmp", "/var/lib/degroot"}
    assert {each["name"] for each in CONTAINER["volumeMounts"]} == {
        *(each["name"] for each in spec["volumes"]),
        *(each["metadata"]["name"] for each in MANIFESTS["statefulset"]["spec"]["volumeClaimTemplates"]),
    }


def test_the_node_reads_the_configuration_and_finds_its_files_where_they_are_mounted(configuration):
    mounts = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    assert configuration.state.is_relative_to(mounts["state"])
    assert configuration.data.file.is_relative_to(mounts["data"])
    assert configuration.model.file.is_relative_to(mounts["data"])
    command = re.search(r"create secret generic (\S+) (.*)", (DEPLOY / "kubernetes" / "statefulset.yaml").read_text())
    files = set(re.findall(r"--from-file=(\S+)", command[2]))
    identity = configuration.identity
    assert files == {path.name for path in (identity.ca, identity.certificate, identity.key)}
    sources = next(each for each in POD["spec"]["volumes"] if each["name"] == "configuration")["projected"]["sources"]
    assert sources == [
        {"configMap": {"name": MANIFESTS["configmap"]["metadata"]["name"]}},
        {"secret": {"name": command[1]}},
    ]


def test_ports_and_paths_are_the_same_everywhere(configuration):
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    assert configuration.listen == f"0.0.0.0:{ports['peers']}"
    assert (configuration.metrics.port, configuration.metrics.host) == (ports["metrics"], "0.0.0.0")
    (exposed,) = list_told("EXPOSE")
    assert {int(port) for port in exposed.split()} == set(ports.values())
    (service,) = MANIFESTS["service"]["spec"]["ports"]
    assert (service["port"], service["targetPort"]) == (ports["peers"], "peers")
    reached = {rule["ports"][0]["port"] for rule in MANIFESTS["networkpolicy"]["spec"]["ingress"]}
    assert reached == set(ports.values())
    probes = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": LIVE, "livenessProbe": LIVE, "readinessProbe": READY,
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {"metrics"}
    (check,) = list_told("HEALTHCHECK")
    assert f"http://127.0.0.1:{ports['metrics']}{LIVE}" in check
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    assert f'"127.0.0.1:{ports["metrics"]}"' in alerts


def test_the_image_and_the_pod_run_the_same_as_the_same_user():
    assert CONTAINER["args"] == json.loads(list_told("CMD")[0])
    user = POD["spec"]["securityContext"]
    assert list_told("USER") == [f"{user['runAsUser']}:{user['runAsGroup']}"]
    assert user["fsGroup"] == user["runAsGroup"]
    assert list_told("STOPSIGNAL") == ["SIGTERM"]
    state = next(each["mountPath"] for each in CONTAINER["volumeMounts"] if each["name"] == "state")
    assert any(f"install -d -o {user['runAsUser']}" in told and state in told for told in list_told("RUN"))


def test_the_unit_runs_what_the_image_runs():
    unit = (DEPLOY / "systemd" / "degroot-node@.service").read_text()
    path = "/etc/degroot/%i/node.toml"
    assert f"ExecStart=/opt/degroot/bin/degroot node run {path}\n" in unit
    assert CONTAINER["args"] == ["node", "run", path.replace("%i/", "")]
    assert "StateDirectory=degroot/%i\n" in unit


def test_grace_periods_are_longer_than_a_node_takes_to_stop(configuration):
    unit = (DEPLOY / "systemd" / "degroot-node@.service").read_text()
    longest = configuration.timing.shutdown_seconds
    assert POD["spec"]["terminationGracePeriodSeconds"] > longest
    assert int(re.search(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE)[1]) > longest
