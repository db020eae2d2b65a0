#!/bin/sh
# gcp.sh - a --notice-script for spot and preemptible machines of Google Compute
# Engine, and for those with GPUs, which are not migrated: prints in how many
# seconds this machine will be taken away, and nothing while it will not.
#
# Asks the metadata server, which tells 30 s before a preemption and an hour
# before maintenance. METADATA_URL: of another one, for tests. Exit status 1: no
# answer.
set -u

url=${METADATA_URL:-http://169.254.169.254}/computeMetadata/v1/instance

get() {
    curl -s -f --noproxy '*' --connect-timeout 1 --max-time 2 \
        -H 'Metadata-Flavor: Google' "$url/$1"
}

preempted=$(get preempted) || exit 1
if [ "$preempted" = TRUE ]; then
    echo '25 preempted' # it was some seconds ago that this began
    exit 0
fi
event=$(get maintenance-event) || exit 1
case $event in
TERMINATE_ON_HOST_MAINTENANCE) echo '3600 host maintenance' ;;
esac
