"""Prints what to paste to start a cluster: over ssh, by cloud-init, on Slurm, on Kubernetes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

from iocurve.cluster import ray_options
from iocurve.cluster.token import made_token

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
    """``ray start`` with its environment, bound to the first processor."""
    environment = ray_options.ENVIRONMENT | (ray_options.HEAD_ENVIRONMENT if head_only else {})
    environment |= {"RAY_AUTH_MODE": "token"}
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    started = shlex.join([*ray_options.bound(), "ray", "start", *options, *ray_options.common()])
    return f"{words} RAY_AUTH_TOKEN_PATH={token} {started}"


def _ssh(head: str, nodes: Sequence[str]) -> str:
    address = f"{head}:{ray_options.HEAD_PORT}"
    path = made_token()
    start = shlex.quote(_start(ray_options.node(address), False, TOKEN_ON_NODE))
    lines = [
        "# On every machine, the same Python and: pip install 'iocurve[scale]'",
        f"# The head, {head}: run this here.",
        _start([*ray_options.head(), f"--node-ip-address={head}"], True, str(path)),
        "# The machines that generate load; each gets the token, and nobody else may read it.",
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
    token = made_token().read_text()
    on_node = "/root/.iocurve-token"
    return f"""#cloud-config
# For the machines of a scale set; whoever reads this text can join the cluster. Late machines join by themselves.
packages: [python3-venv, nfs-common]
write_files:
  - path: {on_node}
    permissions: '0600'
    content: {token}
runcmd:
  - python3 -m venv /opt/iocurve
  - /opt/iocurve/bin/pip install 'iocurve[scale]'
  - mkdir -p /mnt/volume
  # Replace SERVER:/EXPORT by the volume's mount target.
  - mount -t nfs -o rw,hard,vers=3,rsize=262144,wsize=262144,nconnect=8 SERVER:/EXPORT /mnt/volume
  - PATH=/opt/iocurve/bin:$PATH {_start(ray_options.node(address), False, on_node)}
# On the head, {head}:
# {_start([*ray_options.head(), f"--node-ip-address={head}"], True, str(made_token()))}
"""


def _slurm(nodes: int) -> str:
    common = shlex.join([*ray_options.common(), "--num-cpus=1", f"--resources={ray_options.LOAD_CLIENT}"])
    environment = ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT
    exports = "\n".join(f"export {name}={value}" for name, value in environment.items())
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
# The head program shares the first node with a load client.
{exports}
umask 077
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$(python3 -c 'import secrets; print(secrets.token_hex(32))')"
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun ray symmetric-run --address "$HEAD:{ray_options.HEAD_PORT}" --min-nodes {nodes} {common} -- {RUN}
"""


def _kuberay(nodes: int) -> str:
    environment = ray_options.ENVIRONMENT | {"RAY_AUTH_MODE": "token"}
    variables = "".join(
        f"\n            - {{name: {name}, value: {value!r}}}".replace("'", '"') for name, value in environment.items()
    )
    secret = "\n            - {name: RAY_AUTH_TOKEN, valueFrom: {secretKeyRef: {name: iocurve-token, key: token}}}"
    return f"""# First: kubectl create secret generic iocurve-token --from-literal=token="$(openssl rand -hex 32)"
# IMAGE has Python, iocurve[scale] and nothing else; VOLUME-CLAIM is a claim on the NFS volume.
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: iocurve}}
spec:
  headGroupSpec:
    rayStartParams: {{num-cpus: "0", include-dashboard: "false"}}
    template:
      spec:
        containers:
          - name: ray-head
            image: IMAGE
            env:{variables}{secret}
            volumeMounts: [{{name: volume, mountPath: /mnt/volume}}]
        volumes: [{{name: volume, persistentVolumeClaim: {{claimName: VOLUME-CLAIM}}}}]
  workerGroupSpecs:
    - groupName: load
      replicas: {nodes}
      minReplicas: {nodes}
      maxReplicas: {nodes}
      rayStartParams: {{num-cpus: "1", resources: '"{{\\"load_client\\": 1}}"'}}
      template:
        metadata: {{labels: {{iocurve: load}}}}
        spec:
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                - {{labelSelector: {{matchLabels: {{iocurve: load}}}}, topologyKey: kubernetes.io/hostname}}
          containers:
            - name: ray-worker
              image: IMAGE
              env:{variables}{secret}
              volumeMounts: [{{name: volume, mountPath: /mnt/volume}}]
          volumes: [{{name: volume, persistentVolumeClaim: {{claimName: VOLUME-CLAIM}}}}]
# Then: kubectl exec -it HEAD-POD -- {RUN}
"""
