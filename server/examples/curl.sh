#!/bin/sh
# How is a job published, consumed and acknowledged with curl?
#
#     duly serve & sh server/examples/curl.sh
set -eu
api=${DULY_API:-http://127.0.0.1:7777}
admin=${DULY_ADMIN:-http://127.0.0.1:7778}

token=$(curl -sf -X POST "$admin/token/shop?description=curl" | sed -n 's/.*"token": "\(.*\)".*/\1/p')
curl -sf -X PUT -H "X-Token: $token" -d '{"order":7}' "$api/api/shop/close?delay=1&tries=3"
echo
job=$(curl -sf -H "X-Token: $token" "$api/api/shop/close?ttr=30&timeout=10")
echo "$job"
id=$(echo "$job" | sed -n 's/.*"job_id":"\([^"]*\)".*/\1/p')
curl -sf -X DELETE -H "X-Token: $token" "$api/api/shop/close/job/$id"
echo "acknowledged $id"
