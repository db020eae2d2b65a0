#!/bin/sh
# discover.sh - a --host-discovery-script for Slurm: prints the hosts of a job, or of
# a pool of jobs, as they are now. hvd-elastic takes it by itself inside an
# allocation, or with HVD_SLURM_JOB_NAME.
#
#   SLURM_JOB_ID         the job; salloc and sbatch set it
#   HVD_SLURM_JOB_NAME   all running jobs of this name and user instead; of several
#                        on a node the one with the lowest number
#   HVD_SLURM_SLOTS      slots of a host: a number, "gpu" (its GPUs in the job) or
#                        "task", the default: the tasks that srun would start there
#
# A node that is being drained runs its jobs to their end, so that is until when it
# may be used (drain=SECONDS); one that is down is left out. One that only does not
# answer slurmctld is listed: hvd-elastic knows sooner and better whether it is there.
# Exit status 1: no answer, the hosts of before are still the best that is known; 2:
# there is no such job, it is over, or Slurm's programs are not here.
#
# Not SLURM_JOB_NODELIST, which is what it was when the job began.
set -u

# A container has the variables, and often not the programs.
for program in scontrol sinfo; do
    command -v $program >/dev/null && continue
    echo "$program is not in PATH (a container without Slurm in it?) ->" \
        "on this machine alone: -H localhost:N" >&2
    exit 2
done

ask() {
    timeout 5 "$@"
}

# What somebody has exported for these programs changes what they print.
for name in $(env | sed -n 's/^\(\(SQUEUE\|SINFO\|SCONTROL\)_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
unset SLURM_TIME_FORMAT

if [ -n "${HVD_SLURM_JOB_NAME:-}" ]; then
    ids=$(ask squeue -h -r -S i -t RUNNING -u "$(id -un)" \
        -n "$HVD_SLURM_JOB_NAME" -o %i) || exit 1
else
    ids=${SLURM_JOB_ID:?is not set: not inside salloc or sbatch}
fi
[ -n "$ids" ] || exit 0
jobs=$(for id in $ids; do
    ask scontrol show job -d "$id" 2>&1 || exit 1
done) || {
    printf '%s\n' "$jobs" >&2
    case $jobs in
    *"Invalid job id"*) [ -n "${HVD_SLURM_JOB_NAME:-}" ] || exit 2 ;;
    esac
    exit 1
}

if [ -z "${HVD_SLURM_JOB_NAME:-}" ]; then
    state=$(printf '%s\n' "$jobs" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')
    case $state in
    BOOT_FAIL | CANCELLED | COMPLETED | DEADLINE | FAILED | NODE_FAIL | \
        OUT_OF_MEMORY | PREEMPTED | REVOKED | TIMEOUT)
        echo "job $ids (SLURM_JOB_ID) is over: $state -> on this machine alone:" \
            "-H localhost:N" >&2
        exit 2
        ;;
    esac
fi

# What srun would do with the nodes that the job began with: "n1 2 n2 1". A step has
# its own in the same variables, and without --ntasks they count CPUs.
tasks=
if [ -z "${HVD_SLURM_JOB_NAME:-}${SLURM_STEP_ID:-}" ] &&
    [ -n "${SLURM_NTASKS:-}" ] && [ -n "${SLURM_JOB_NODELIST:-}" ]; then
    names=$(ask scontrol show hostnames "$SLURM_JOB_NODELIST") || exit 1
    tasks=$(printf '%s\n' "$names" | awk -v text="${SLURM_TASKS_PER_NODE:-}" \
        -v sum="$SLURM_NTASKS" '
        { name[NR] = $1 }
        END {
            n = split(text, words, ",")
            for (i = 1; i <= n; i++) {
                times = split(words[i], part, /[(x)]+/) > 1 ? part[2] : 1
                for (; times > 0; times--) {
                    each[++k] = part[1]
                    left += part[1]
                }
            }
            for (i = 1; i <= NR && k == NR && left == sum + 0; i++)
                printf "%s %s ", name[i], each[i]
        }')
fi

# lines: the nodes of a job, how many there are, its tasks, those of each node if they
# are equal (0: not), CPUs of a task; or nodes with CPUs and GPUs of their own. Behind
# both the end of the job.
slots=$(printf '%s\n' "$jobs" | awk '
    function value(word) { sub(/^[^=]*=/, "", word); return word }
    /JobState=/ { runs = /JobState=RUNNING/; each = 0; per_task = 1; job++ }
    !runs { next }
    {
        cpus = gpus = 0
        for (i = 1; i <= NF; i++) {
            if ($i ~ /^EndTime=/) end = value($i)
            if ($i ~ /^NodeList=/) list = value($i)
            if ($i ~ /^NumNodes=/) n_nodes = value($i) + 0
            if ($i ~ /^NumTasks=/) n_tasks = value($i) + 0
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
        print "job" job, list, n_nodes "/" n_tasks "/" each, end
    }
    /CPU_IDs=/ { print "node", nodes, int(cpus / per_task) "/" gpus, end }') || exit 1

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
printf '%s\n%s\n' "$states" "$hosts" | awk -v want="${HVD_SLURM_SLOTS:-task}" \
    -v tasks="$tasks" '
    BEGIN {
        n_words = split(tasks, words, " ")
        for (i = 1; i < n_words; i += 2) exact[words[i]] = words[i + 1]
    }
    $1 == "state" && $3 ~ /^(drng|failg)/ { drains[$2] = 1; next }
    $1 == "state" && $3 ~ /^(down|drain|fail|err|unk|boot|pow|inval|futr)/ {
        gone[$2] = 1
    }
    $1 == "state" { next }
    { split($3, given, "/") }
    !($2 in order) { order[$2] = ++n; name[n] = $2 }
    $1 == "node" {
        if (!($2 in room)) { room[$2] = given[1]; gpus[$2] = given[2] }
        next
    }
    {   # as srun spreads them, as far as the processors of each node go
        at = n_of[$1]++
        if ($2 in share) next
        even = given[3] > 0
        share[$2] = even ? given[3] : int(given[2] / given[1]) + \
            (at < given[2] % given[1])
        is_even[$2] = even
        left[$2] = $4
    }
    function slots(host) {
        if (want ~ /^[0-9]+$/) return want
        if (want == "gpu") return gpus[host]
        if (host in exact) return exact[host]
        if (is_even[host] || !(host in room) || share[host] < room[host])
            return share[host]
        return room[host]
    }
    END {
        for (i = 1; i <= n; i++) {
            host = name[i]
            count = slots(host)
            if (count > 0 && !(host in gone))
                print host ":" count \
                    (host in drains ? " drain=" left[host] : "")
        }
    }'
