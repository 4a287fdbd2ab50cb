//! `duly bench`.

use serde_json::Value;

use super::duly;
use crate::servers;

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
