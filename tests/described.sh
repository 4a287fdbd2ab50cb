#!/usr/bin/env bash
# Sends requests that schemathesis makes of the OpenAPI description to a server, and checks each reply
# against it: no 5xx, no status, type or header that it does not name, no request against it accepted.
# Not that all that it allows is accepted: what two fields forbid together it cannot say.
#
#     tests/described.sh [examples of an operation]   (20)
#
# Takes two minutes with 20 examples, five with 100. Prints its seed; DULY_DESCRIBED_SEED sets it.
# DULY_PROGRAM names a server that is built already. Needs Python 3 and, once, the network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

examples=${1:-20}
seed=${DULY_DESCRIBED_SEED:-$RANDOM$RANDOM}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
python=$target/described
[ -x "$python/bin/schemathesis" ] || {
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check schemathesis==4.32.5
}
program=${DULY_PROGRAM:-$target/debug/duly}
[ -n "${DULY_PROGRAM:-}" ] || cargo build --locked --quiet -p duly-server --bin duly

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
"$program" serve --store memory: --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 >"$folder/log" &
server=$!
# address <listener>: its address, once it listens.
address() {
    local line
    until line=$(grep -m 1 "listener=\"$1\"" "$folder/log"); do
        kill -0 "$server" || return 1 # it has ended
        sleep 0.1
    done
    printf '%s' "${line##*address=}"
}
api=$(address api)
admin=$(address admin)
# Of one namespace, whose token is known.
token=$(python3 - "$api" "$admin" "$folder/description.json" <<'PYTHON'
import json, sys, urllib.request

api, admin, file = sys.argv[1:]
made = urllib.request.Request(f"http://{admin}/token/shop?description=described", method="POST")
print(json.load(urllib.request.urlopen(made))["token"])
described = json.load(urllib.request.urlopen(f"http://{api}/v1/openapi.json"))
for path, item in list(described["paths"].items()):
    for part in [item, *(part for part in item.values() if isinstance(part, dict))]:
        if "parameters" in part:
            part["parameters"] = [it for it in part["parameters"] if it.get("name") != "namespace"]
    described["paths"][path.replace("{namespace}", "shop")] = described["paths"].pop(path)
json.dump(described, open(file, "w"))
PYTHON
)
# A stream of leases has no end, and lines are no JSON: tests of the server have both.
cd "$folder" # where it keeps what it has found
"$python/bin/schemathesis" run description.json --url "http://$api" \
    --header "X-Token: $token" --max-examples "$examples" --seed "$seed" --request-timeout 60 \
    --exclude-operation-id streamLeases --exclude-operation-id pushEventLines \
    --exclude-checks positive_data_acceptance --suppress-health-check all --workers 2 --no-color
