"""The Kubernetes manifests of docs/examples: their parts fit each other and the harness.

Whether Kubernetes takes their keys, `make containers` asks its schemas.
"""

import re

import pytest

from bench.config.compose import compose
from bench.machine.variables import SECRET_VARIABLE
from tests.support.manifests import Manifests
from tests.support.pages import text_of

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def manifests() -> Manifests:
    return Manifests.read()


def test_the_number_of_nodes_is_the_same_in_all_places(manifests: Manifests) -> None:
    device = compose(manifests.overrides).device
    assert device.nnodes > 1
    assert manifests.job["completions"] == manifests.job["parallelism"] == device.nnodes
    assert device.world_size == device.nnodes * manifests.container["resources"]["limits"]["nvidia.com/gpu"]


def test_the_comparison_composes_and_waits_as_long_as_the_other_nodes_do(manifests: Manifests) -> None:
    config = compose(manifests.overrides)
    assert (config.model.name, config.device.type) == ("bert-large", "cuda")
    (wait,) = re.findall(r"--wait (\d+)", manifests.command[-1])
    assert config.device.rdzv_timeout_s == int(wait)


def test_pod_0_listens_at_its_own_name_and_the_others_look_for_it_in_the_service(
    manifests: Manifests,
) -> None:
    host, _, port = manifests.coordinator.partition(":")
    job, service = manifests.objects["Job"], manifests.objects["Service"]
    assert manifests.job["completionMode"] == "Indexed"  # which names pod 0 so
    own_name = f"{job['metadata']['name']}-0"
    assert host == f"{own_name}.{service['metadata']['name']}"
    assert manifests.pod["subdomain"] == service["metadata"]["name"]
    assert f"device.rdzv_endpoint={own_name}:{port}" in manifests.overrides
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_service_policy_and_one_pod_a_node_are_about_the_pods_of_the_job(manifests: Manifests) -> None:
    labels = manifests.job["template"]["metadata"]["labels"]
    policy = manifests.objects["NetworkPolicy"]["spec"]
    ((source,),) = [rule["from"] for rule in policy["ingress"]]
    affinity = manifests.pod["affinity"]["podAntiAffinity"]
    (apart,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert labels == manifests.objects["Service"]["spec"]["selector"]
    for selector in (policy["podSelector"], source["podSelector"], apart["labelSelector"]):
        assert selector == {"matchLabels": labels}


def test_the_secret_is_in_the_variable_that_the_harness_reads(manifests: Manifests) -> None:
    (variable,) = manifests.container["env"]
    assert variable["name"] == SECRET_VARIABLE
    source = variable["valueFrom"]["secretKeyRef"]
    made = f"kubectl create secret generic {source['name']} --from-literal={source['key']}="
    assert made in text_of("docs/several-nodes.md")


def test_results_and_reports_lie_on_the_claim_where_every_pod_can_mount_it(manifests: Manifests) -> None:
    mounts = manifests.container["volumeMounts"]
    volumes = {volume["name"]: volume for volume in manifests.pod["volumes"]}
    assert {mount["name"] for mount in mounts} == volumes.keys()
    (workdir,) = re.findall(r"^WORKDIR (.+)$", text_of("containers/Dockerfile"), re.MULTILINE)
    kept = {mount["mountPath"] for mount in mounts if mount["name"] == "claim"}
    config = compose([])
    results = config.results_dir.partition("/")[0]
    assert kept == {f"{workdir}/{results}", f"{workdir}/{config.reports_dir}"}
    claim = manifests.objects["PersistentVolumeClaim"]
    assert volumes["claim"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    (shared,) = [mount["name"] for mount in mounts if mount["mountPath"] == "/dev/shm"]
    assert volumes[shared]["emptyDir"]["medium"] == "Memory"
