"""The files of docs/deploy, as the tests read them: manifests for Kubernetes, their pods, and Dockerfiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"

Object = Dict[str, Any]


def objects_of(file: Path) -> List[Object]:
    """The objects of a manifest."""
    return [each for each in yaml.safe_load_all(file.read_text()) if each is not None]


def manifests() -> List[Path]:
    """The manifests, without the files that kustomize reads."""
    return sorted(file for file in KUBERNETES.rglob("*.yaml") if file.name != "kustomization.yaml")


def kustomized(base: Path) -> List[Object]:
    """What kustomize makes of a base, with an empty value for the secret that a user puts beside it."""
    (description,) = objects_of(base / "kustomization.yaml")
    found: List[Object] = []
    for entry in description.get("resources", []):
        resource = (base / entry).resolve()
        found += kustomized(resource) if resource.is_dir() else objects_of(resource)
    for generator in description.get("secretGenerator", []):
        data = dict.fromkeys(generator["files"], "")
        found.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": generator["name"]}, "data": data})
    return found


def pod_templates(manifest: Object) -> Iterator[Object]:
    """The templates of pods in an object, with the name of their owner."""
    if manifest["kind"] == "MPIJob":
        for replica in manifest["spec"]["mpiReplicaSpecs"].values():
            yield replica["template"]
    elif "template" in manifest.get("spec", {}):
        yield manifest["spec"]["template"]


class Container(NamedTuple):
    """The command of a container, its environment, and the user and rights of its processes."""

    command: List[str]
    environment: Dict[str, str]
    user: int
    group: int
    grace_s: int


def container_of(manifests_of_base: List[Object], owner: str) -> Container:
    """The only container of the pods of this Job or StatefulSet."""
    (manifest,) = [
        each
        for each in manifests_of_base
        if each["metadata"]["name"] == owner and each["kind"] in ("Job", "StatefulSet")
    ]
    spec = manifest["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    environment = {each["name"]: each["value"] for each in container.get("env", [])}
    rights = container["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"]} and rights["allowPrivilegeEscalation"] is False
    user = spec["securityContext"]
    return Container(
        [*container["command"], *container["args"]],
        environment,
        user["runAsUser"],
        user["fsGroup"],
        spec["terminationGracePeriodSeconds"],
    )


def instructions(dockerfile: Path) -> List[Tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments; continued lines are joined."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, arguments = line.partition(" ")
        found.append((name, arguments.strip()))
    return found


def shell_lines(page: Path) -> List[str]:
    """The command lines in the indented code blocks of a page; continued lines are joined."""
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    return [line.strip() for line in text.splitlines() if line.startswith("    ") and line.strip()]
