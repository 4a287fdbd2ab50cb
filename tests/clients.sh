#!/usr/bin/env bash
# Runs the tests of the clients in other languages (clients/) against the server: formats, types,
# packages, and tests with a server that is killed and started again.
#
# The server is that of DULY_PROGRAM, or is built. Everything else is in a folder under the target
# directory: a copy of the clients, a Python environment, packages of npm, the cache of Go. Missing
# programs are installed with apt, as root or through sudo; Node 20 or later has to be there.
# A test that is skipped counts as failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export NO_COLOR=1 CI=1
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/clients
work=$folder/work
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

need() { # need <program> <package>...: installs the packages unless there is such a program
    local program=$1 as_root=()
    shift
    ! command -v "$program" >/dev/null || return 0
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# check <title> <command>...: one test, which passes if the command does.
check() {
    local title=$1
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '== %s\n' "$title"
        cat "$log"
    fi
}

# suite <kind> <report> <command>...: tests, counted by their report.
suite() {
    local kind=$1 report=$2 good bad began=$SECONDS
    shift 2
    rm -f "$report"
    "$@" >"$log" 2>&1 || true # the report counts
    read -r good bad < <(python3 "$work/clients/count.py" "$kind" "$report")
    passed=$((passed + good))
    failed=$((failed + bad))
    [ "$bad" = 0 ] || cat "$log"
    printf '   %s: %s passed, %s failed, %s s\n' "$kind" "$good" "$bad" $((SECONDS - began))
}

# once <stamp> <file> <command>...: runs a command again only when a file has changed.
once() {
    local stamp=$folder/$1 sum
    sum=$(sha256sum <"$2")
    shift 2
    [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || return 0
    "$@" && printf '%s\n' "$sum" >"$stamp"
}

need python3 python3 python3-venv
need go golang-go
for bin in /usr/lib/postgresql/*/bin; do PATH=$PATH:$bin; done # Debian keeps it out of the PATH
need postgres postgresql
if ! node -e 'process.exit(+(+process.versions.node.split(".")[0] < 20))' 2>/dev/null; then
    echo "node is missing or older than 20: install it, for example from https://nodejs.org" >&2
    echo "0 passed, 1 failed"
    exit 1
fi
if [ -z "${DULY_PROGRAM:-}" ]; then
    cargo build --locked --quiet -p duly-server --bin duly
    DULY_PROGRAM=$target/debug/duly
fi
DULY_PROGRAM=$(realpath "$DULY_PROGRAM")
export DULY_PROGRAM

mkdir -p "$work/server"
cp server/openapi.json "$work/server"
# What is installed in the copy stays there.
git ls-files -z --cached --others --exclude-standard clients | tar -c --null -T - | tar -x -C "$work"

python_tools() {
    [ -x "$folder/python/bin/python" ] || python3 -m venv "$folder/python"
    "$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check \
        hatchling editables pip --editable "$work/clients/python" --group "$work/clients/python/pyproject.toml:dev"
}
cd "$work/clients/python"
"$folder/python/bin/python" -m pip --version >/dev/null 2>&1 || rm -rf "$folder/python" "$folder/python.sum"
[ -d "$folder/python" ] || { python3 -m venv "$folder/python" && "$folder/python/bin/python" -m pip install --quiet --upgrade pip; }
once python.sum pyproject.toml python_tools
export PATH=$folder/python/bin:$PATH
check "python: ruff format" ruff format --check .
check "python: ruff" ruff check .
check "python: mypy" mypy
suite pytest "$folder/pytest.xml" python -m pytest -q --junitxml "$folder/pytest.xml"

cd "$work/clients/typescript"
once typescript.sum package-lock.json npm ci --silent --no-audit --no-fund
check "typescript: tsc" npm run --silent check
suite vitest "$folder/vitest.json" npx vitest run --reporter=default --reporter=json \
    --outputFile.json="$folder/vitest.json"

cd "$work/clients/go"
export GOCACHE=$folder/go-cache GOFLAGS=-mod=mod GOPROXY=off
check "go: gofmt" sh -c 'test -z "$(gofmt -l .)"'
check "go: vet" go vet ./...
go_tests() {
    go test -count=1 -timeout 10m -json ./... >"$folder/go.json"
}
suite go "$folder/go.json" go_tests

cd "$root"
check "packages" .ci/clients pack "$folder/dist"
check "what is installed from the packages" .ci/clients try "$folder/dist"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
