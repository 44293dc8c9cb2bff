"""Prints what to paste to start a cluster: over ssh, by cloud-init, on Slurm, on Kubernetes."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from textwrap import indent
from typing import Literal

from iocurve._native import VERSION
from iocurve.cluster import ray_options
from iocurve.cluster.packages import wheel
from iocurve.cluster.ray_options import made_user_token

Place = Literal["ssh", "cloud-init", "slurm", "kuberay"]
TOKEN_ON_NODE = "~/.iocurve-token"
RUN = "iocurve run anf-large-scale-out --target /mnt/volume --on auto"


def commands(place: Place, head: str, nodes: Sequence[str]) -> str:
    """The text to paste. ``head`` is an address that all nodes reach; ``nodes`` are the machines that generate load.

    All but ``slurm`` and ``kuberay`` use the token of this user, which is made if there is none.
    """
    if place == "ssh":
        return _ssh(head, nodes)
    if place == "cloud-init":
        return _cloud_init(head)
    return _slurm(len(nodes)) if place == "slurm" else _kuberay(len(nodes))


def _start(options: Sequence[str], head_only: bool, token: str) -> str:
    """``ray start`` with its environment, bound to the first processor; ``token`` is a path as a shell reads it."""
    environment = ray_options.ENVIRONMENT | (ray_options.HEAD_ENVIRONMENT if head_only else {})
    environment |= {"RAY_AUTH_MODE": "token"}
    ports = ray_options.HEAD_PORTS if head_only else ray_options.PORTS
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    started = shlex.join([*ray_options.bound(), "ray", "start", *options, *ray_options.common(ports)])
    return f"{words} RAY_AUTH_TOKEN_PATH={token} {started}"


def _wheel() -> str:
    return wheel(VERSION, os.uname().machine)


def _ssh(head: str, nodes: Sequence[str]) -> str:
    address = f"{head}:{ray_options.HEAD_PORT}"
    path = made_user_token()
    start = shlex.quote(_start(ray_options.node(address), False, TOKEN_ON_NODE))
    lines = [
        f"# On every machine, the same Python, and the file that make wheel builds: pip install './{_wheel()}[scale]'",
        f"# The head, {head}: run this here.",
        _start([*ray_options.head(), f"--node-ip-address={head}"], True, shlex.quote(str(path))),
        "# The machines that generate load; each gets the token, and no other user may read it.",
    ]
    for node in nodes:
        where = shlex.quote(node)
        lines.append(f"ssh {where} 'umask 077; cat > {TOKEN_ON_NODE}' < {shlex.quote(str(path))}")
        lines.append(f"ssh {where} {start}")
    lines += ["iocurve cluster check", RUN, "# At the end, on every machine:"]
    lines += [f"ssh {shlex.quote(node)} ray stop" for node in nodes]
    return "\n".join([*lines, "ray stop", ""])


def _cloud_init(head: str) -> str:
    address = f"{head}:{ray_options.HEAD_PORT}"
    path = made_user_token()
    on_node = "/root/.iocurve-token"
    # A JSON string is a YAML string, whatever is in it. The head may come up after the machine.
    join = json.dumps(
        f"export PATH=/opt/iocurve/bin:$PATH; "
        f"until {_start(ray_options.node(address), False, on_node)}; do sleep 10; done"
    )
    return f"""#cloud-config
# For the machines of a scale set; whoever reads this text can join the cluster. Late machines join by themselves.
packages: [python3-venv, nfs-common]
write_files:
  - path: {on_node}
    permissions: '0600'
    content: '{path.read_text()}'
runcmd:
  - python3 -m venv /opt/iocurve
  # Replace WHEELS by a directory or an address that has this file; make wheel builds it.
  - /opt/iocurve/bin/pip install 'WHEELS/{_wheel()}[scale]'
  - mkdir -p /mnt/volume
  # Replace SERVER:/EXPORT by the volume's mount target.
  - mount -t nfs -o rw,hard,vers=3,rsize=262144,wsize=262144,nconnect=8 SERVER:/EXPORT /mnt/volume
  - {join}
# On the head, {head}:
# {_start([*ray_options.head(), f"--node-ip-address={head}"], True, shlex.quote(str(path)))}
"""


def _slurm(nodes: int) -> str:
    common = shlex.join([*ray_options.common(), f"--resources={ray_options.LOAD_CLIENT}"])
    environment = ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT
    exports = "\n".join(f"export {name}={value}" for name, value in environment.items())
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
# The coordinator shares the first node with an agent.
{exports}
umask 077
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$(python3 -c 'import secrets; print(secrets.token_hex(32))')"
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun ray symmetric-run --address "$HEAD:{ray_options.HEAD_PORT}" --min-nodes {nodes} {common} -- {RUN}
"""


def _kuberay(nodes: int) -> str:
    ports = ray_options.PORTS
    started = (
        f'include-log-monitor: "false", object-store-memory: "{ray_options.OBJECT_STORE_BYTES}", '
        f'node-manager-port: "{ports["node-manager-port"]}"'
    )
    head = _pod("ray-head", ray_options.HEAD_PORT, ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT)
    worker = _pod("ray-worker", ports["node-manager-port"], ray_options.ENVIRONMENT)
    return f"""# First: kubectl create secret generic iocurve-token --from-literal=token="$(openssl rand -hex 32)"
# IMAGE has Python and {_wheel()}[scale]; VOLUME-CLAIM is a claim on the NFS volume.
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: iocurve}}
spec:
  headGroupSpec:
    rayStartParams: {{num-cpus: "0", include-dashboard: "false", {started}}}
    template:
      spec:
{indent(head, " " * 8)}
  workerGroupSpecs:
    - groupName: load
      replicas: {nodes}
      minReplicas: {nodes}
      maxReplicas: {nodes}
      rayStartParams: {{resources: '"{{\\"load_client\\": 1}}"', {started}}}
      template:
        metadata: {{labels: {{iocurve: load}}}}
        spec:
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                - {{labelSelector: {{matchLabels: {{iocurve: load}}}}, topologyKey: kubernetes.io/hostname}}
{indent(worker, " " * 10)}
# Then: kubectl exec -it HEAD-POD -- {RUN}
"""


def _pod(container: str, port: int, environment: dict[str, str]) -> str:
    """The containers and volumes of a pod.

    It has probes of its own: those that KubeRay adds run a program every few seconds, which asks a dashboard that plain
    ``ray`` does not have.
    """
    variables = "".join(
        f'\n      - {{name: {name}, value: "{value}"}}'
        for name, value in (environment | {"RAY_AUTH_MODE": "token"}).items()
    )
    return f"""containers:
  - name: {container}
    image: IMAGE
    env:{variables}
      - {{name: RAY_AUTH_TOKEN, valueFrom: {{secretKeyRef: {{name: iocurve-token, key: token}}}}}}
    livenessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 10}}
    readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 10}}
    volumeMounts: [{{name: volume, mountPath: /mnt/volume}}]
volumes: [{{name: volume, persistentVolumeClaim: {{claimName: VOLUME-CLAIM}}}}]"""
