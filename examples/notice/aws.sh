#!/bin/sh
# aws.sh - a --notice-script for spot instances of AWS EC2: prints in how many
# seconds this machine will be taken away, and nothing while it will not.
#
# Asks the instance metadata service (IMDSv2), which tells two minutes before.
# Inside a container the hop limit of the instance has to be 2. METADATA_URL: of
# another service, for tests. Exit status 1: no answer.
set -u

url=${METADATA_URL:-http://169.254.169.254}

get() {
    curl -s --noproxy '*' --connect-timeout 1 --max-time 2 "$@"
}

token=$(get -f -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
    "$url/latest/api/token") || exit 1
answer=$(get -w ' status=%{http_code}' -H "X-aws-ec2-metadata-token: $token" \
    "$url/latest/meta-data/spot/instance-action") || exit 1
case $answer in
*' status=404') exit 0 ;; # no notice
*' status=200') ;;
*) exit 1 ;;
esac

value() {
    printf '%s\n' "$answer" | sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"
}

# Where date(1) does not understand it: what is left of the two minutes, surely.
left=60
time=$(value time)
if [ -n "$time" ] && at=$(date -u -d "$time" +%s 2>/dev/null); then
    left=$((at - $(date -u +%s)))
fi
[ "$left" -gt 0 ] || left=0
echo "$left spot instance: $(value action)"
