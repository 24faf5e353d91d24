"""What is in cluster/ is accepted by those who read it, agrees with itself and with the versions that are tested."""

import copy
import re
import shlex
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import load_settings
from corpusgen.corpus.build import check_workers
from distiller.settings import TrainSettings
from tests.cluster.manifests import FIELDS, problems, read
from tests.testing import PROJECT

CLUSTER = PROJECT / "cluster"
FOR_RAY_UP = {name: read(CLUSTER / f"{name}.yaml") for name in ("aws", "gcp")}
MANIFESTS = {path.stem: read(path) for path in sorted((CLUSTER / "kuberay").glob("ray*.yaml"))}
POLICY = read(CLUSTER / "kuberay/networkpolicy.yaml")
DOCKERFILE = (CLUSTER / "Dockerfile").read_text()
PINS = dict(line.split("==") for line in (PROJECT / ".ci/constraints.txt").read_text().split() if "==" in line)

of_files = pytest.mark.parametrize(
    "path", [path for path in sorted(CLUSTER.rglob("*")) if path.is_file()], ids=lambda path: path.name
)
of_providers = pytest.mark.parametrize("provider", FOR_RAY_UP)
of_manifests = pytest.mark.parametrize("name", MANIFESTS)


# ----------------------------------------------------------------- every file


@of_files
def test_files_are_tidy(path):
    text = path.read_text(encoding="utf-8")
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for number, line in enumerate(text.splitlines(), 1):
        assert line == line.rstrip(), f"{number}: blanks at the end"
        assert len(line) <= 120 or path.suffix == ".json", f"{number}: too long"  # there a text cannot be broken


def test_a_key_that_is_there_twice_is_found(tmp_path):
    (tmp_path / "twice.yaml").write_text("a: {b: 1, c: 2, b: 3}\n")
    with pytest.raises(yaml.YAMLError, match="'b' is there twice"):
        read(tmp_path / "twice.yaml")


@of_files
def test_versions_are_those_that_are_tested(path):
    text = path.read_text(encoding="utf-8")
    for version in re.findall(r"rayproject/ray:([\d.]+)|RAY_VERSION=([\d.]+)|rayVersion: \"([\d.]+)\"", text):
        assert "".join(version) == PINS["ray"]
    assert set(re.findall(r"py3\d+", text)) <= {"py311"}
    assert not re.search(r"[a-z]==\d", text), "versions are in .ci/constraints.txt"
    for command in re.findall(r"pip install ([^\n&]*)", text):
        words = shlex.split(command.rstrip("\\"))
        assert words[words.index("--constraint") + 1].endswith(".ci/constraints.txt")
        packages = [word for word in words if re.fullmatch(r"[a-z][\w-]+", word)]
        assert set(packages) <= set(PINS), "without a pin"


@of_files
def test_no_secret_is_written_down(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bAKIA[0-9A-Z]{16}\b|-----BEGIN|auth_token=|RAY_AUTH_TOKEN=", text)
    assert "0.0.0.0" not in text


# -------------------------------------------------------------------- ray up


@of_providers
def test_ray_accepts_it(provider, monkeypatch):
    monkeypatch.chdir(PROJECT)
    config = prepare_config(copy.deepcopy(FOR_RAY_UP[provider]))
    validate_config(config)
    assert config["available_node_types"]["head"]["max_workers"] == 0
    with pytest.raises(Exception, match="Additional properties"):
        validate_config({**config, "idle_timeout": 5})


@of_providers
def test_nodes_are_what_is_promised(provider):
    config = FOR_RAY_UP[provider]
    head, cpu, gpu = (config["available_node_types"][name] for name in ("head", "cpu_worker", "gpu_worker"))
    assert head["resources"]["CPU"] == 0
    assert "GPU" not in cpu["resources"]
    assert gpu["resources"]["GPU"] == 1
    assert cpu["min_workers"] == gpu["min_workers"] == 0
    assert cpu["max_workers"] + gpu["max_workers"] == config["max_workers"]
    assert gpu["docker"]["worker_image"] == config["docker"]["worker_image"].replace("-cpu", "-gpu")
    assert "spot" in str(gpu["node_config"]).lower()
    assert "spot" not in str(cpu["node_config"]).lower()
    start = config["head_start_ray_commands"][-1]
    assert "--num-cpus=0" in start


@of_providers
def test_dashboard_and_client_are_for_the_head_itself(provider):
    """The dashboard by its own setting; the client has none, so that the machine turns others away from its port."""
    config = FOR_RAY_UP[provider]
    start = config["head_start_ray_commands"][-1]
    assert re.findall(r"--(?:dashboard-host|ray-client-server-port|node-ip-address)\S*", start) == [
        "--dashboard-host=127.0.0.1"
    ]
    rule = "INPUT -p tcp --dport 10001 ! -i lo -j REJECT"
    assert f"sudo iptables -C {rule} || sudo iptables -I {rule}" in config["initialization_commands"]
    assert "initialization_commands" not in config["available_node_types"]["head"]  # they would replace those of all
    assert "--env RAY_AUTH_MODE=token" in config["docker"]["run_options"]


def test_providers_differ_only_where_they_must():
    aws, gcp = FOR_RAY_UP["aws"], FOR_RAY_UP["gcp"]
    assert aws.keys() == gcp.keys()
    own = {"provider", "available_node_types", "initialization_commands"}
    for name in aws.keys() - own - {"file_mounts"}:
        assert aws[name] == gcp[name], name
    # On AWS the machines have a role; elsewhere the store's credentials are a file of the user's.
    assert gcp["file_mounts"] == {**aws["file_mounts"], "/home/ray/.aws/credentials": "~/.aws/s3-credentials"}


@of_providers
def test_mounted_files_are_there_and_are_those_of_the_image(provider):
    mounts = FOR_RAY_UP[provider]["file_mounts"].values()
    sources = {source for source in mounts if not source.startswith("~")}  # what is secret is the user's
    assert all((PROJECT / source).exists() for source in sources)
    copied = {source.removesuffix("/constraints.txt") for source in copied_into_the_image()}
    assert sources == copied - {"configs"}  # which go with each job


# ---------------------------------------------------------------------- image


def copied_into_the_image():
    for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        yield from sources


def test_what_is_copied_is_there_and_nothing_else_is_sent_to_the_builder():
    ignore = (CLUSTER / "Dockerfile.dockerignore").read_text().splitlines()
    sources = set(copied_into_the_image())
    assert all((PROJECT / source).exists() for source in sources)
    assert {line[1:] for line in ignore if line.startswith("!")} == sources
    assert "*" in ignore


def test_one_file_makes_both_images():
    assert re.search(r"^ARG PLATFORM=cpu$", DOCKERFILE, re.M)
    assert "FROM rayproject/ray:${RAY_VERSION}-py311-${PLATFORM}" in DOCKERFILE


# -------------------------------------------------------------------- KubeRay


def cluster_of(manifest):
    return manifest["spec"]["rayClusterSpec"] if manifest["kind"] == "RayJob" else manifest["spec"]


@of_manifests
def test_fields_are_those_of_kuberay(name):
    manifest = MANIFESTS[name]
    assert manifest["apiVersion"] == "ray.io/v1"
    assert list(problems(manifest, FIELDS[manifest["kind"]], name)) == []


def test_fields_that_do_not_exist_are_found():
    broken = copy.deepcopy(MANIFESTS["raycluster"])
    broken["spec"]["workerGroupSpec"] = broken["spec"].pop("workerGroupSpecs")
    broken["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "16 GB"
    broken["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0
    del broken["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    assert set(problems(broken, FIELDS["RayCluster"])) == {
        ".spec.workerGroupSpec: no such field",
        ".spec.headGroupSpec.rayStartParams: not a mapping to strings",
        ".spec.headGroupSpec.template.spec.containers[0].resources.limits.memory: '16 GB' is not a quantity",
        ".spec.headGroupSpec.template.spec.containers[0].image: missing",
    }


@of_manifests
def test_pods_are_what_is_promised(name):
    cluster = cluster_of(MANIFESTS[name])
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["headGroupSpec"]["serviceType"] == "ClusterIP"
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["serviceAccountName"] == "wicdistil"
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert all("secretKeyRef" in variable["valueFrom"] for variable in container["env"])
        on_gpus = "nvidia.com/gpu" in container["resources"]["limits"]
        assert container["image"].endswith(":gpu" if on_gpus else ":cpu")
        assert on_gpus == any(taint["key"] == "nvidia.com/gpu" for taint in pod.get("tolerations", ()))


def test_only_rays_own_pods_reach_more_than_the_dashboard_and_metrics():
    assert list(problems(POLICY, FIELDS["NetworkPolicy"])) == []
    assert POLICY["apiVersion"] == "networking.k8s.io/v1"
    of_ray = {"podSelector": {"matchLabels": {"ray.io/is-ray-node": "yes"}}}
    assert POLICY["spec"]["podSelector"] == of_ray["podSelector"]
    assert POLICY["spec"]["policyTypes"] == ["Ingress"]
    among_themselves, *others = POLICY["spec"]["ingress"]
    assert among_themselves == {"from": [of_ray]}
    assert [port["port"] for rule in others for port in rule["ports"]] == [8265, 8080]
    # Submitters in the namespace, and the operator wherever it is.
    assert [sorted(peer) for peer in others[0]["from"]] == [["podSelector"], ["namespaceSelector", "podSelector"]]


def test_the_same_pods_are_the_same_in_all_manifests():
    pods = {}
    for manifest in MANIFESTS.values():
        cluster = cluster_of(manifest)
        head = {"groupName": "head", **cluster["headGroupSpec"]}
        for group in (head, *cluster["workerGroupSpecs"]):
            pod = {key: group[key] for key in ("rayStartParams", "template")}
            assert pods.setdefault(group["groupName"], pod) == pod


def test_the_cluster_and_the_build_scale():
    cluster, job = (cluster_of(MANIFESTS[name]) for name in ("raycluster", "rayjob-build"))
    assert cluster == job
    assert cluster["enableInTreeAutoscaling"]
    assert cluster["autoscalerOptions"]["idleTimeoutSeconds"]
    assert all(group["minReplicas"] == 0 for group in cluster["workerGroupSpecs"])


def settings_of(name, kind, *command):
    program, verb, config, *options = shlex.split(MANIFESTS[name]["spec"]["entrypoint"])
    assert (program, verb) == command
    assert set(options[::2]) == {"--set"}
    path = PROJECT / Path(config).relative_to("/home/ray/wicdistil")
    return load_settings(kind, path, options[1::2])


def test_the_build_is_one_that_can_be_run():
    settings = settings_of("rayjob-build", BuildConfig, "corpusgen", "build")
    check_workers(settings)
    assert all(worker.max_workers for worker in settings.run.workers.values())
    groups = {group["groupName"]: group for group in cluster_of(MANIFESTS["rayjob-build"])["workerGroupSpecs"]}
    on_gpus = [worker.max_workers for worker in settings.run.workers.values() if worker.gpus]
    assert sum(on_gpus) == groups["gpu"]["maxReplicas"]


def test_the_training_has_as_many_pods_as_workers():
    settings = settings_of("rayjob-train", TrainSettings, "distiller", "train")
    (group,) = cluster_of(MANIFESTS["rayjob-train"])["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == settings.workers
