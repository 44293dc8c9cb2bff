#!/bin/bash
#SBATCH --nodes=@NODES@
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
# The coordinator shares the first node with an agent.
@EXPORTS@
umask 077
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$(python3 -c 'import secrets; print(secrets.token_hex(32))')"
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun ray symmetric-run --address "$HEAD:@PORT@" --min-nodes @NODES@ @COMMON@ -- @RUN@
