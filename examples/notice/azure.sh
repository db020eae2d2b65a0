#!/bin/sh
# azure.sh - a --notice-script for virtual machines of Azure: prints in how many
# seconds this machine will be taken away or restarted, and nothing while it
# will not.
#
# Asks the instance metadata service for scheduled events: an eviction is told
# 30 s before, most others 5 to 15 minutes. It tells those of all machines of a
# scale set, so the own name is asked for too. METADATA_URL: of another service,
# for tests. Exit status 1: no answer.
set -u

url=${METADATA_URL:-http://169.254.169.254}/metadata

get() {
    curl -s -f --noproxy '*' --connect-timeout 1 --max-time 2 \
        -H 'Metadata: true' "$url/$1"
}

events=$(get 'scheduledevents?api-version=2020-07-01') || exit 1
name=$(get 'instance/compute/name?api-version=2021-02-01&format=text') || exit 1

# An event is an object without others in it: a line for each.
event=$(printf '%s' "$events" | tr '\n{' ' \n' |
    grep -E '"EventType" *: *"(Preempt|Terminate|Reboot|Redeploy)"' |
    grep -F "\"$name\"" | head -n 1)
[ -n "$event" ] || exit 0

value() {
    printf '%s\n' "$event" | sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"
}

# Without a time it has begun; where date(1) does not understand it: at least.
not_before=$(value NotBefore)
left=0
if [ -n "$not_before" ]; then
    left=25
    if at=$(date -u -d "$not_before" +%s 2>/dev/null); then
        left=$((at - $(date -u +%s)))
    fi
fi
[ "$left" -gt 0 ] || left=0
echo "$left scheduled event: $(value EventType)"
