"""The files of docs/deploy: manifests that Kubernetes accepts, and commands that the product accepts."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
import yaml
from deploy import DEPLOY, KUBERNETES, ROOT, instructions, kustomized, manifests, objects_of, pod_templates, shell_lines
from launched import DEADLINE_S
from namespaces import FARANDOLE

VERSIONS = ("1.28", "1.34", "1.37")
VALIDATOR = ROOT / ".setup" / "venvs" / "kubernetes" / "bin" / "python"
BASES = [KUBERNETES / "indexed-job", KUBERNETES / "elastic"]
DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
PAGES = sorted(DEPLOY.glob("*.md"))

# Reads objects from the standard input and prints what is wrong with them in each version.
VALIDATION = """
import json, sys, kubernetes_validate

objects, versions = json.load(sys.stdin)
for version in versions:
    for each in objects:
        try:
            kubernetes_validate.validate(each, version, strict=True)
        except Exception as problem:
            print(version, each["kind"], each["metadata"]["name"], getattr(problem, "message", problem))
"""


def problems_of(objects: List[Dict[str, object]]) -> str:
    if not VALIDATOR.exists():
        pytest.skip(f"{VALIDATOR} is not there: tools/setup --launch makes it")
    given = json.dumps([objects, VERSIONS])
    command = [str(VALIDATOR), "-c", VALIDATION]
    return subprocess.run(command, input=given, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout


def test_kubernetes_accepts_the_manifests() -> None:
    objects = [each for base in BASES for each in kustomized(base)]
    assert {each["kind"] for each in objects} == {"Job", "StatefulSet", "Service", "Secret"}
    # Kubernetes itself does not know MPIJob, but the templates of its pods are those of Kubernetes.
    for file in manifests():
        for manifest in objects_of(file):
            for template in pod_templates(manifest):
                name = {"name": f"{file.stem}-template"}
                objects.append({"apiVersion": "v1", "kind": "PodTemplate", "metadata": name, "template": template})
    assert problems_of(objects) == ""


def test_the_check_of_manifests_finds_an_unknown_field() -> None:
    (service,) = objects_of(KUBERNETES / "common" / "service.yaml")
    service["spec"]["publishNotReady"] = True
    assert problems_of([service]).count("publishNotReady") == len(VERSIONS)


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_names_in_a_base_refer_to_objects_of_it(base: Path) -> None:
    objects = kustomized(base)
    by_kind = {
        kind: {each["metadata"]["name"] for each in objects if each["kind"] == kind} for kind in ("Service", "Secret")
    }
    (service,) = [each for each in objects if each["kind"] == "Service"]
    for manifest in objects:
        for template in pod_templates(manifest):
            assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
            spec = template["spec"]
            assert spec.get("subdomain", manifest["spec"].get("serviceName")) in by_kind["Service"]
            for volume in spec["volumes"]:
                if "secret" in volume:
                    assert volume["secret"]["secretName"] in by_kind["Secret"]
            (container,) = spec["containers"]
            names = {volume["name"] for volume in spec["volumes"]}
            assert {mount["name"] for mount in container["volumeMounts"]} <= names
    # The agents dial the name and the port of the launcher's pod.
    (launcher,) = [each for each in objects if each["metadata"]["name"] == "launcher"]
    pod = launcher["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    port = container["args"][container["args"].index("--agent-port") + 1]
    (agents,) = [each for each in objects if each["metadata"]["name"] == "agent"]
    address = f"{pod['hostname']}.{pod['subdomain']}:{port}"
    assert address in agents["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [container["ports"][0]["containerPort"], service["spec"]["ports"][0]["port"]] == [int(port), int(port)]


def test_the_indexed_job_has_as_many_pods_as_its_launcher_awaits() -> None:
    objects = {each["metadata"]["name"]: each for each in kustomized(KUBERNETES / "indexed-job")}
    arguments = objects["launcher"]["spec"]["template"]["spec"]["containers"][0]["args"]
    agents = objects["agent"]["spec"]
    assert agents["completions"] == agents["parallelism"] == int(arguments[arguments.index("--agents") + 1])


# ---- commands ----

OWN = ("farandole", "horovodrun")
# A command line ends before the program that the workers run.
PROGRAM = ("python", "train.py")


def refused(words: List[str], etc: Path) -> str:
    """What the product says against a command line of this tree; "" if it accepts it.

    Nothing is started: a launcher looks for its command first, which is one that does not exist, and an agent reads
    its secret first.
    """
    words = [word.replace("/etc/mpi/", f"{etc}/") for word in words]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "FARANDOLE_"))}
    environment["FARANDOLE_SECRET_FILE"] = "/nonexistent/secret"
    program = str(Path(FARANDOLE).with_name(words[0]))
    if words[1:2] == ["agent"]:
        secret = words.index("--secret-file") + 1
        words = [*words[:secret], "/nonexistent/secret", *words[secret + 1 :]]
        code, expected = 2, "the secret file /nonexistent/secret cannot be read or is empty"
    elif words[1:] == ["check"]:
        code, expected = 0, "Available Frameworks"
    else:
        assert tuple(words[-2:]) == PROGRAM, words
        words = [*words[:-2], "/nonexistent/program"]
        code, expected = 127, "/nonexistent/program"
    result = subprocess.run(
        [program, *words[1:]], check=False, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    output = result.stdout + result.stderr
    return (
        "" if result.returncode == code and expected in output else f"{shlex.join(words)}: {result.returncode} {output}"
    )


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """The files that the MPI operator puts into the launcher's pod."""
    folder = tmp_path / "mpi"
    folder.mkdir()
    names = [f"train-worker-{number}.train-worker.default.svc" for number in range(2)]
    (folder / "hostfile").write_text("".join(f"{name} slots=1\n" for name in names))
    script = folder / "discover_hosts.sh"
    script.write_text("#!/bin/sh\n" + "".join(f"echo {name}\n" for name in names))
    script.chmod(0o555)
    return folder


def test_the_product_accepts_the_commands_of_the_manifests(etc: Path) -> None:
    commands = [
        [*container["command"], *container.get("args", [])]
        for file in manifests()
        for manifest in objects_of(file)
        for template in pod_templates(manifest)
        for container in template["spec"]["containers"]
        if container["command"][0] != "sh"  # sshd, which test_deploy_pods.py runs
    ]
    assert len(commands) == 6
    assert [refused(command, etc) for command in commands] == [""] * len(commands)


def test_the_check_of_commands_finds_an_unknown_option(etc: Path) -> None:
    assert "--agent-prot" in refused(["farandole", "run", "--agent-prot", "7070", "-np", "2", *PROGRAM], etc)
    agent = ["farandole", "agent", "--launcher", "a:1", "--slot", "x", "--secret-file", "secret"]
    assert "--slot" in refused(agent, etc)


def is_own(arguments: List[str]) -> bool:
    return arguments[:1] in (["run"], ["agent"], ["check"]) or "".join(arguments[:1]).startswith("-")


def test_the_product_accepts_the_commands_of_the_pages(etc: Path) -> None:
    found: Dict[str, List[str]] = {}
    for page in PAGES:
        for line in shell_lines(page):
            if not re.search(r"\b(farandole|horovodrun)\s+(run|agent|check|-\S*)(\s|$)", line):
                continue  # other commands, and what commands print
            words = [word.replace("$(hostname)-$CONTAINER_ID", "b-1") for word in shlex.split(line)]
            # The command may follow docker, conda or a variable, and may itself start a container for its workers.
            first = next(number for number, word in enumerate(words) if word in OWN and is_own(words[number + 1 :]))
            if words[-1] != "$@":
                found[line] = words[first:]
    assert len(found) >= 10, found
    assert [refused(words, etc) for words in found.values()] == [""] * len(found)


# ---- Dockerfiles ----


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda file: file.stem)
def test_a_dockerfile_names_files_that_exist_and_arguments_that_it_declares(dockerfile: Path, etc: Path) -> None:
    declared, stages = {"PATH", "SSH_PORT", "@"}, set()
    for name, arguments in instructions(dockerfile):
        used = set(re.findall(r"\$\{?([A-Z_]+)", arguments))
        assert used <= declared, f"{name} {arguments}"
        if name == "ARG":
            declared.add(arguments.partition("=")[0])
        elif name == "FROM":
            stages |= set(re.findall(r" AS (\w+)$", arguments))
            declared -= {"FRAMEWORK", "FRAMEWORK_INDEX", "LOCK"}  # an argument is declared for one stage
        elif name == "COPY" and (stage := re.match(r"--from=(\w+) (\S+)", arguments)):
            assert stage.group(1) in stages
        elif name == "COPY":
            assert (ROOT / arguments.split()[0]).exists(), arguments
        elif name == "RUN":
            subprocess.run(["sh", "-n", "-c", arguments], check=True, timeout=DEADLINE_S)
        elif name == "CMD":
            command = json.loads(arguments)
            assert command[0] == "sh" or refused(command, etc) == ""


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_an_image_is_built_by_the_command_that_sets_up_this_tree(name: str) -> None:
    found = instructions(DEPLOY / "docker" / f"{name}.Dockerfile")
    assert ("RUN", "tools/setup") in found
    assert "\n    tools/setup\n" in (DEPLOY / "apptainer" / "farandole.def").read_text()
    # The same system, so the libraries of the first stage and the second are the same.
    bases = [arguments.split()[0].removesuffix("-slim") for instruction, arguments in found if instruction == "FROM"]
    assert bases == ["debian:${DEBIAN}"] * 2 and ("ARG", "DEBIAN=12") in found


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_an_image_has_the_libraries_of_the_product(name: str) -> None:
    text = " ".join(arguments for _, arguments in instructions(DEPLOY / "docker" / f"{name}.Dockerfile"))
    command = "import farandole._native as module; print(module.__file__)"
    native = subprocess.run(
        [sys.executable, "-c", command], check=True, capture_output=True, text=True, timeout=DEADLINE_S
    )
    missing = set()
    for file in (native.stdout.strip(), FARANDOLE):
        linked = subprocess.run(["ldd", file], check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout
        for path in re.findall(r"=> (/\S+)", linked):
            owner = package_of(path)
            if owner not in ALWAYS_THERE and not re.search(rf"\s{re.escape(owner)}\s", text):
                missing.add(owner)
    assert missing == set()


# Packages of every Debian system, and those on which a named package depends.
ALWAYS_THERE = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libfmt9"}


@functools.cache
def package_of(library: str) -> str:
    for path in (library, os.path.realpath(library), f"/usr{library}"):
        found = subprocess.run(["dpkg", "-S", path], check=False, capture_output=True, text=True, timeout=DEADLINE_S)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise AssertionError(f"no Debian package has {library}")


# ---- conda ----


def test_the_conda_environment_has_what_the_project_requires() -> None:
    environment = yaml.safe_load((DEPLOY / "conda" / "environment.yml").read_text())
    names = {re.split(r"[=<>]", entry)[0] for entry in environment["dependencies"]}
    assert {"python", "pip", "pytorch", "numpy", "cloudpickle"} <= names
