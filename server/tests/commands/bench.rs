//! `duly bench`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Ran, catches, command, duly, signal};
use crate::servers;
use crate::world::until;

fn measured(store: &str, workload: &str) -> Value {
    let store = ["--store", store, "--workload", workload, "--json", "-"];
    let small = ["--events", "300", "--rate", "50", "--seconds", "1"];
    duly(&[&["bench"], &store[..], &small].concat()).json()
}

fn is_whole(figures: &Value) {
    for figure in ["push_one_per_s", "push_batch_per_s", "drain_per_s"] {
        assert!(figures[figure].as_f64() > Some(0.0), "{figures}");
        assert!(figures["ceiling"][figure].as_f64() > Some(0.0), "{figures}");
    }
    for figure in ["own", "mixed", "retried", "cancelled"] {
        let rate = figures[format!("{figure}_per_s")].as_f64();
        assert!(rate > Some(0.0), "{figures}");
    }
    assert!(
        figures["bytes_per_event"].as_f64() >= Some(0.0),
        "{figures}"
    );
    for figure in ["p50", "p99", "p999", "max"] {
        let late = figures["lateness_ms"][figure].as_f64();
        assert!(late >= Some(0.0), "{figures}");
    }
    assert_eq!(figures["lateness_ms"]["early"], 0, "{figures}");
    for figure in ["p50", "p99", "last"] {
        assert!(
            figures["herd_ms"][figure].as_f64() >= Some(0.0),
            "{figures}"
        );
    }
}

#[test]
fn every_workload_is_measured_on_a_file_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    is_whole(&measured(&store, "all"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn every_workload_is_measured_on_redis_and_leaves_nothing() {
    let url = servers::shared().url();
    is_whole(&measured(&url, "all"));
    let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
    let keys = redis::cmd("KEYS").arg("*duly-bench-*").query(&mut redis);
    assert_eq!(keys, Ok(Vec::<String>::new()));
}

#[test]
fn every_workload_is_measured_on_a_cluster_and_leaves_nothing() {
    let url = servers::shared_cluster();
    is_whole(&measured(&url, "all"));
    let nodes = url.trim_start_matches("redis-cluster://").split(',');
    for node in nodes {
        let client = redis::Client::open(format!("redis://{node}")).unwrap();
        let mut node_of = client.get_connection().unwrap();
        let keys = redis::cmd("KEYS").arg("*duly-bench-*").query(&mut node_of);
        assert_eq!(keys, Ok(Vec::<String>::new()), "{node}");
    }
}

#[test]
fn a_rate_that_cannot_be_pushed_in_time_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let workload = ["bench", "--store", &store, "--workload", "lateness"];
    let too_fast = ["--rate", "100000", "--seconds", "3"];
    let refused = duly(&[&workload[..], &too_fast].concat());
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("use a lower --rate"), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Interrupts a benchmark when `has_begun`, and asserts that it says so.
async fn interrupted(
    (store, workload, events): (&str, &str, &str),
    (name, has_begun): (&str, impl Fn() -> bool),
) {
    let arguments = ["bench", "--store", store, "--workload", workload];
    let mut bench = command(&[&arguments[..], &["--events", events]].concat());
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let bench = bench.unwrap();
    until("it has begun", async || has_begun()).await;
    signal(bench.id(), name);
    let output = bench.wait_with_output().unwrap();
    assert!(
        output.status.code().is_some(),
        "{workload}, {name}: {output:?}"
    );
    Ran::of(&output).fails(1, "it was interrupted");
}

/// Workloads, events, and the signals that interrupt them.
const INTERRUPTED: [(&str, &str, &str); 5] = [
    ("push", "1000000", "INT"),
    ("drain", "1000000", "TERM"),
    ("cancelled", "1000000", "TERM"),
    ("lateness", "1000000", "HUP"),
    ("herd", "1000000", "INT"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_interrupted_leaves_nothing_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|it| it.unwrap().path()).collect::<Vec<_>>()
    };
    for (workload, events, signal) in INTERRUPTED {
        let has_begun = || !entries(folder.path()).is_empty();
        interrupted((&store, workload, events), (signal, has_begun)).await;
        assert_eq!(entries(folder.path()), [""; 0].map(Path::new), "{workload}");
    }
    // The same work without the library.
    let has_begun = || {
        let places = entries(folder.path());
        let files = places.iter().flat_map(|place| entries(place));
        let mut raw = files.filter(|it| it.to_string_lossy().contains("/raw-"));
        raw.next().is_some()
    };
    interrupted((&store, "push", "20000"), ("TERM", has_begun)).await;
    assert_eq!(entries(folder.path()), [""; 0].map(Path::new));
}

/// `nohup` has it begin with HUP ignored, and so that stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_outlive_its_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let bench = ["bench", "--store", &store, "--workload", "push"];
    let demo = ["demo", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"];
    for (arguments, ends) in [
        ([&bench[..], &["--events", "40000"]].concat(), true),
        (demo.to_vec(), false),
    ] {
        let inner = command(&arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
        shell.arg(inner.get_program()).args(inner.get_args());
        let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        // By the last signal that it listens to: INT is the shell's as well.
        until("it has begun", async || catches(child.id(), 14)).await;
        assert!(!catches(child.id(), 1), "{arguments:?}");
        signal(child.id(), "HUP");
        if !ends {
            assert_eq!(child.try_wait().unwrap(), None);
            signal(child.id(), "INT");
        }
        let output = child.wait_with_output().unwrap();
        let ran = Ran::of(&output);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains("interrupted"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_interrupted_leaves_nothing_on_redis() {
    let url = servers::shared().url();
    let mut redis = redis::Client::open(url.as_str())
        .unwrap()
        .get_connection()
        .unwrap();
    let mut keys = |kind: &str| -> Vec<String> {
        let pattern = format!("*duly-bench-*{kind}");
        redis::cmd("KEYS").arg(pattern).query(&mut redis).unwrap()
    };
    let mut is_there = |kind: &str| !keys(kind).is_empty();
    let is_there = std::cell::RefCell::new(&mut is_there);
    let is_there = |kind: &str| (is_there.borrow_mut())(kind);
    for (workload, events, signal) in INTERRUPTED {
        interrupted((&url, workload, events), (signal, || is_there(""))).await;
        assert!(!is_there(""), "{workload}");
    }
    interrupted((&url, "push", "20000"), ("TERM", || is_there(":body"))).await;
    assert!(!is_there(""));
}

#[test]
fn the_urls_of_a_benchmark_are_those_of_a_store() {
    let url = servers::shared().url();
    let figures = measured(&format!("{url}?timeout=9s"), "push");
    assert!(figures["ceiling"]["push_batch_per_s"].as_f64() > Some(0.0));
    let store = format!("{url}?tiemout=9s");
    duly(&["bench", "--store", &store]).fails(2, "unknown option; known are prefix");
}

#[test]
fn one_workload_is_measured_alone_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let figures = measured(&store, "push");
    assert!(figures["push_one_per_s"].as_f64() > Some(0.0));
    let bytes = figures["ceiling"]["bytes_per_event"].as_f64();
    assert!(bytes > Some(64.0), "{figures}");
    assert_eq!(figures["drain_per_s"], Value::Null);
    let file = folder.path().join("figures.json");
    let arguments = ["bench", "--workload", "push", "--events", "100", "--store"];
    let file_arguments = [&store, "--json", file.to_str().unwrap()];
    let shown = duly(&[&arguments[..], &file_arguments].concat());
    assert!(shown.text().contains("RAW CEILING"), "{shown:?}");
    let figures = std::fs::read_to_string(file).unwrap();
    assert!(figures.contains("push_batch_per_s"), "{figures}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    duly(&["bench", "--store", "memory:"]).fails(2, "cannot be measured");
    duly(&["bench", "--store", "redis://h/?prefix=shop"]).fails(2, "without a prefix");
    duly(&["bench", "--store", "sqlite:none/x.db"]).fails(1, "cannot be made");
    duly(&["bench", "--store", "sqlite:x.db", "--events", "0"]).fails(2, "--events");
}
