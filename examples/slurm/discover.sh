#!/bin/sh
# discover.sh - a --host-discovery-script for Slurm: prints the hosts of a job, or of
# a pool of jobs, as they are now. hvd-elastic takes it by itself inside an
# allocation, or with HVD_SLURM_JOB_NAME.
#
#   SLURM_JOB_ID         the job; salloc and sbatch set it
#   HVD_SLURM_JOB_NAME   all running jobs of this name and user instead; of several
#                        on a node the one with the lowest number
#   HVD_SLURM_SLOTS      slots of a host: a number, "gpu" (its GPUs in the job) or
#                        "task", the default: --ntasks-per-node, else its CPUs in the
#                        job by --cpus-per-task
#
# A node that is being drained runs its jobs to their end, so that is until when it
# may be used (drain=SECONDS); one that is down is left out. One that only does not
# answer slurmctld is listed: hvd-elastic knows sooner and better whether it is there.
# Exit status 1: no answer, the hosts of before are still the best that is known.
#
# Not SLURM_JOB_NODELIST, which is what it was when the job began.
set -u

ask() {
    timeout 5 "$@"
}

if [ -n "${HVD_SLURM_JOB_NAME:-}" ]; then
    ids=$(ask squeue -h -r -S i -t RUNNING -u "$(id -un)" \
        -n "$HVD_SLURM_JOB_NAME" -o %i) || exit 1
else
    ids=${SLURM_JOB_ID:?is not set: not inside salloc or sbatch}
fi
[ -n "$ids" ] || exit 0
jobs=$(for id in $ids; do ask scontrol show job -d "$id" || exit 1; done) || exit 1

# lines: is it of these very nodes, or an average (nodes that a job has got later have
# none of their own); the nodes, the slots of each, the end of the job
slots=$(printf '%s\n' "$jobs" | awk -v want="${HVD_SLURM_SLOTS:-task}" '
    function slots(cpus, gpus) {
        if (want ~ /^[0-9]+$/) return want
        if (want == "gpu") return gpus
        return each > 0 ? each : int(cpus / per_task)
    }
    function value(word) { sub(/^[^=]*=/, "", word); return word }
    /JobState=/ { runs = /JobState=RUNNING/; each = 0; per_task = 1 }
    !runs { next }
    {
        cpus = gpus = 0
        for (i = 1; i <= NF; i++) {
            if ($i ~ /^EndTime=/) end = value($i)
            if ($i ~ /^NodeList=/) list = value($i)
            if ($i ~ /^NumNodes=/) n_nodes = value($i) + 0
            if ($i ~ /^NumCPUs=/) n_cpus = value($i)
            if ($i ~ /^CPUs\/Task=[1-9]/) per_task = value($i)
            if ($i ~ /^NtasksPerN:/) each = value($i) + 0
            if ($i ~ /^Nodes=/) nodes = value($i)
            if ($i ~ /^CPU_IDs=/) {
                n = split(value($i), ranges, ",")
                for (k = 1; k <= n; k++)
                    cpus += split(ranges[k], ends, "-") == 2 ? \
                        ends[2] - ends[1] + 1 : 1
            }
            if (match($i, /gpu[^(]*:[0-9]+\(/)) {
                word = substr($i, RSTART, RLENGTH - 1)
                sub(/.*:/, "", word)
                gpus += word
            }
        }
    }
    /NtasksPerN:/ && list != "" && n_nodes > 0 {
        print "average", list, slots(n_cpus / n_nodes, 0), end
    }
    /CPU_IDs=/ { print "node", nodes, slots(cpus, gpus), end }') || exit 1

now=$(date +%s)
hosts=$(printf '%s\n' "$slots" | while read -r what nodes n end; do
    [ -n "$what" ] || continue
    case $nodes in
    *[\[,]*) nodes=$(ask scontrol show hostnames "$nodes") || exit 1 ;;
    esac
    # a job without an end: the longest that hvd-elastic knows
    left=1000000
    if at=$(date -d "$end" +%s 2>/dev/null) && [ $((at - now)) -lt $left ]; then
        left=$((at > now ? at - now : 0))
    fi
    for node in $nodes; do echo "$what $node $n $left"; done
done) || exit 1
[ -n "$hosts" ] || exit 0

names=$(printf '%s\n' "$hosts" | awk '{ print $2 }' | sort -u | paste -sd, -)
states=$(ask sinfo -h -N -n "$names" -o 'state %N %t') || exit 1
printf '%s\n%s\n' "$states" "$hosts" | awk '
    $1 == "state" && $3 ~ /^(drng|failg)/ { drains[$2] = 1; next }
    $1 == "state" && $3 ~ /^(down|drain|fail|err|unk|boot|pow|inval|futr)/ {
        gone[$2] = 1
    }
    $1 == "state" { next }
    !($2 in order) { order[$2] = ++n; name[n] = $2 }
    $1 == "node" && !($2 in slots) { slots[$2] = $3 }
    $1 == "average" && !($2 in average) { average[$2] = $3; left[$2] = $4 }
    END {
        for (i = 1; i <= n; i++) {
            host = name[i]
            count = host in slots ? slots[host] : average[host]
            if (count > 0 && !(host in gone))
                print host ":" count \
                    (host in drains ? " drain=" left[host] : "")
        }
    }'
