#!/bin/bash
# pool.sh - a job that grows and shrinks with the queue: each node is a job of its own
# that holds it, and may come later, or be preempted.
#
#   ./pool.sh 8 ./train --lr 0.1     up to 8 nodes, as they come
set -eu
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
nodes=$1
shift
export HVD_SLURM_JOB_NAME=hvd-pool-$$

# each task of the array is a job, which ends when we do
array=$(sbatch --parsable --job-name="$HVD_SLURM_JOB_NAME" --array="1-$nodes" \
    --nodes=1 --ntasks-per-node=1 --no-requeue --output=/dev/null \
    --wrap 'exec sleep infinity')
trap 'scancel "$array"' EXIT
hvd-elastic -np 1 --max-np "$nodes" -- "$@"
