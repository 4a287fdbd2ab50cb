#!/usr/bin/env bash
# Runs whole what tests/run.sh samples, and what it leaves out: random runs with many cases, every
# point of every sweep, the benchmarks in their quick form, each planted bug. It takes hours.
#
#     tests/long.sh            runs every part
#     tests/long.sh <part>...  runs these: simulation stress model payloads schedules hostile embedded names stops
#                              syscalls crash redis server described outbox held records journal neighbours power benches mutants
#
# What it sets of the environment, a million seeds of the simulation among it, wins nothing over what
# is set already. Seeds are printed. tests/run.sh installs what is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR=never NO_COLOR=1
for bin in /usr/lib/postgresql/*/bin; do PATH=$PATH:$bin; done # Debian keeps it out of the PATH
parts=("$@")
[ $# != 0 ] || parts=(simulation stress model payloads schedules hostile embedded names stops syscalls crash redis
    server outbox held records journal neighbours power benches mutants)
failed=()

# default <name> <value>: sets a variable that nobody has set.
default() {
    [ -n "${!1:-}" ] || export "$1=$2"
    printf '   %s=%s\n' "$1" "${!1}"
}

# duly <cargo's options> -- <tests>: runs tests of the package, one after the other, and shows what
# they print: seeds, and counts.
duly() {
    cargo test --quiet --locked --all-features "$@" --nocapture --test-threads=1
}

simulation() { # optimised, since it computes and does nothing else
    default DULY_SEEDS 1000000
    duly --release --test simulation --
}
stress() {
    default DULY_STRESS 2000
    duly --release --lib -- flow::pool::tests::stress::
}
model() {
    default DULY_MODEL_CASES 1000
    duly --release --test stores -- store_model::
    for window in 40 10000; do # few long sequences of large batches
        printf '   DULY_MODEL_WINDOW=%s\n' "$window"
        DULY_MODEL_WINDOW=$window DULY_MODEL_STEPS=2000 DULY_MODEL_BATCH=1000 DULY_MODEL_CASES=4 \
            duly --release --test stores -- store_model::the_redis_store_answers_as_the_model_does
    done
}
hostile() {
    default DULY_FUZZ_CASES 200000
    duly --release --test bus -- hostile::
}
payloads() {
    default DULY_SHAPES_CASES 2000
    duly --release --test bus -- payloads::round_trips
}
schedules() { # all changes of all clocks, beside a walk through their minutes; stops, and kills
    default DULY_SCHEDULE_CASES 1000000
    duly --release --test bus -- schedule::clocks
    default DULY_SCHEDULE_STOPS all
    duly --test bus -- schedule::stops
    default DULY_SCHEDULE_SEEDS 2000
    duly --test bus -- schedule::random
    default DULY_OCCURRENCE_KILLS 300
    duly --test faults -- occurrences::
}
embedded() {
    default DULY_FLIPS bytes
    default DULY_CRASH_CASES 40
    default DULY_SHORTAGE_CASES 60
    duly --test stores -- embedded::
}
names() { # rounds in which everything has a name of its own
    default DULY_NAMES 100000
    duly --release --test names --
}
stops() {
    default DULY_STOP_ROUNDS 200
    duly --test bus -- delivery::futures::beside
}
syscalls() {
    default DULY_SYSCALLS all
    duly --test faults -- syscalls::
}
crash() {
    default DULY_CRASH_CASES 40
    duly --test faults -- crash::
}
redis() {
    default DULY_REDIS_CASES 12
    default DULY_REDIS_KILLS 60
    duly --test faults -- redis_faults::
    default DULY_REDIS_ABORTS all
    duly --test stores -- redis_store::aborted
    default DULY_COSTS all
    duly --test stores -- redis_store::costs
    default DULY_LEFTOVERS all
    duly --test stores -- redis_store::leftovers
    default DULY_BUSY_EVENTS 1000000
    duly --test stores -- redis_store::busy
}
server() {
    default DULY_SERVER_KILLS 12
    cargo test --quiet --locked --package duly-server --all-features --test server -- kills:: \
        --nocapture --test-threads=1
    default DULY_AXE all
    cargo test --quiet --locked --package duly-server --all-features --test server -- axe
}
described() {
    tests/described.sh 100
}
outbox() {
    default DULY_OUTBOX_CASES 30
    default DULY_OUTBOX_KILLS 300
    cargo test --quiet --locked --package duly-outbox --all-features --test outbox -- load:: files:: \
        --nocapture --test-threads=1
}
held() { # a transaction that is held open for five minutes beside 2,000 pushes a second, in each server
    default DULY_OUTBOX_HELD_SECONDS 300
    default DULY_OUTBOX_RATE 2000
    cargo test --quiet --locked --release --package duly-outbox --all-features --test outbox -- held:: \
        --nocapture --test-threads=1
}
records() {
    default DULY_RECORD_KILLS 20
    duly --test faults -- records::kills::
}
journal() {
    default DULY_JOURNAL_CASES 1000
    duly --test stores -- journal::
}
neighbours() {
    default DULY_NEIGHBOURS build
    duly --test project -- neighbours::
    # The embedded store on each rusqlite that is allowed: the workspace has the newest.
    local away minor last
    away=$(mktemp -d)
    trap 'cp "$away/Cargo.lock" tests/oldest/Cargo.lock; rm -rf "$away"' EXIT
    cp tests/oldest/Cargo.lock "$away"
    last=$(sed -nE 's/^rusqlite = .*<0\.([0-9]+)".*/\1/p' Cargo.toml)
    for minor in $(seq 32 $((last - 1))); do
        cargo update --quiet --manifest-path tests/oldest/Cargo.toml rusqlite --precise "0.$minor.0"
        DULY_RUSQLITE=0.$minor cargo test --quiet --manifest-path tests/oldest/Cargo.toml --lib
    done
}
power() {
    default DULY_POWER_CASES 1000
    default DULY_POWER_FAULTS 1000000
    cargo test --quiet --locked --manifest-path tests/power/Cargo.toml -- --nocapture
}
benches() {
    local path name
    for path in benches/*.rs benches/*/main.rs; do
        name=${path#benches/}
        name=${name%/main.rs}
        cargo bench --quiet --locked --all-features --bench "${name%.rs}" -- --quick
    done
}
mutants() {
    cargo run --quiet --locked --manifest-path tests/mutants/Cargo.toml
}

for part in "${parts[@]}"; do
    declare -F "$part" >/dev/null || { echo "there is no part $part" >&2 && exit 2; }
done
for part in "${parts[@]}"; do
    printf '== %s\n' "$part"
    began=$SECONDS
    # In a shell of its own, so that its variables end with it and its first error ends it.
    code=0
    bash -c "set -euo pipefail; $(declare -f default duly "$part"); $part" || code=$?
    [ "$code" = 0 ] || failed+=("$part")
    printf '   %s s\n' $((SECONDS - began))
done

[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" && exit 1; }
echo "all is well"
