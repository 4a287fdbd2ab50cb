#!/usr/bin/env bash
# The throughput of the clients beside the official client of lmstfy for Rust, on one server in memory:
# each publishes some jobs one by one, so many in flight, and then consumes and acknowledges them.
#
#     clients/throughput.sh [JOBS [AT-ONCE [ROUNDS]]]    # 20000, 32, 3
#
# The official clients for Go, PHP and Java are not in a registry that everybody reaches: their column
# is that of the Rust one. Client and server share the machine, so the ratios are the thing to look at.
# DULY_PROGRAM names a server; without it one is built for release. Needs cargo, go, Node 20, Python 3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
jobs=${1:-20000} at_once=${2:-32} rounds=${3:-3}
target=$(realpath -m "${CARGO_TARGET_DIR:-../target}")
folder=$target/throughput
mkdir -p "$folder"

if [ -z "${DULY_PROGRAM:-}" ]; then
    cargo build --release --locked --quiet -p duly-server --bin duly
    DULY_PROGRAM=$target/release/duly
fi
CARGO_TARGET_DIR=$folder/rust cargo build --release --quiet --manifest-path throughput/Cargo.toml
[ -x "$folder/python/bin/python" ] || python3 -m venv "$folder/python"
"$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check ./python
rm -rf "$folder/node" && mkdir -p "$folder/node/node_modules/duly"
cp -r typescript/. "$folder/node/node_modules/duly/"
(cd "$folder/node/node_modules/duly" && npm ci --silent --no-audit --no-fund && npm run --silent build)
cp throughput/throughput.mjs "$folder/node/"
(cd throughput/go && GOFLAGS=-mod=mod GOPROXY=off go build -o "$folder/go" .)

log=$(mktemp)
DULY_SERVER__LOG__FORMAT=json DULY_SERVER__API__LISTEN=127.0.0.1:0 DULY_SERVER__ADMIN__LISTEN=127.0.0.1:0 \
    "$DULY_PROGRAM" serve --store memory: >"$log" 2>&1 &
server=$!
trap 'kill $server; rm -f "$log"' EXIT
# address <listener>: where it listens, once it does.
address() {
    local line
    # Ends with the server, whose log has no more lines then. No pipeline: `tail` dies of its end.
    line=$(grep -m 1 "\"listener\":\"$1\"" < <(tail -n +1 -F --pid=$server "$log" 2>/dev/null)) || {
        cat "$log" >&2
        return 1
    }
    sed 's/.*"address":"\([^"]*\)".*/\1/' <<<"$line"
}
api=$(address api)
token=$("$DULY_PROGRAM" token create shop --description throughput --admin "http://$(address admin)" --json |
    sed 's/.*"token": *"\([^"]*\)".*/\1/')

run() { # run <client>: two numbers
    case $1 in
    official) # it prints two lines for each request, too
        "$folder/rust/release/lmstfy-throughput" "${api%:*}" "${api#*:}" "$token" "$jobs" "$at_once" | tail -n 1 ;;
    go) "$folder/go" "http://$api" "$token" "$jobs" "$at_once" ;;
    typescript) (cd "$folder/node" && node throughput.mjs "http://$api" "$token" "$jobs" "$at_once") ;;
    python) "$folder/python/bin/python" throughput/throughput.py "http://$api" "$token" "$jobs" "$at_once" ;;
    esac
}

clients=(official go typescript python)
for round in $(seq "$rounds"); do
    for client in "${clients[@]}"; do
        echo "$client $(run "$client")"
    done
done | awk '
    { push[$1] = push[$1] " " $2; take[$1] = take[$1] " " $3 }
    function median(list,   n, i, j, t, v) {
        n = split(list, v, " ")
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return v[int((n + 1) / 2)] + 0
    }
    END {
        print "| client | push, /s | of the official | lease and settle, /s | of the official |"
        print "|---|--:|--:|--:|--:|"
        split("official go typescript python", order, " ")
        for (i = 1; i <= 4; i++) {
            c = order[i]; p = median(push[c]); t = median(take[c])
            printf "| %s | %d | %.2f | %d | %.2f |\n", c, p, p / median(push["official"]), t, t / median(take["official"])
        }
    }'
