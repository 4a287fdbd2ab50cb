//! The board of Grafana.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::dashboards::expressions::{all, metric, unknown_names};

const BOARD: &str = include_str!("../../dashboards/duly.json");

pub(crate) fn board() -> Value {
    serde_json::from_str(BOARD).expect("it is JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Every expression, with the title of its panel.
pub(crate) fn expressions() -> Vec<(String, String)> {
    let board = board();
    let mut found = Vec::new();
    for panel in list(&board, "panels") {
        for target in list(panel, "targets") {
            let expression = target["expr"].as_str().expect("it is a text");
            found.push((panel["title"].to_string(), expression.to_owned()));
        }
    }
    found
}

#[test]
fn the_board_names_only_metrics_and_labels_that_there_are() {
    let expressions = expressions();
    assert!(expressions.len() > 40, "{}", expressions.len());
    for (panel, expression) in expressions {
        assert_eq!(unknown_names(&expression), [""; 0], "{panel}");
    }
}

#[test]
fn the_board_shows_every_metric_of_the_catalogue() {
    let mut shown = BTreeSet::new();
    for (_, expression) in expressions() {
        let words = expression.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        shown.extend(words.filter_map(metric).map(|metric| metric.name));
    }
    let known: BTreeSet<_> = all().map(|metric| metric.name).collect();
    let missing: Vec<_> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Gauges of the catalogue that every node tells for itself alone are added; what each node knows
/// of all of them is not.
#[test]
fn what_every_node_knows_of_all_is_never_added() {
    for name in [
        "duly_live_nodes",
        "duly_queue_oldest_ready_seconds",
        "duly_outbox_waiting",
        "duly_relay_waiting",
        "duly_relay_deferred",
        "duly_relay_oldest_seconds",
        "duly_relay_put_aside",
        "duly_relay_away",
    ] {
        for (panel, expression) in expressions() {
            let is_added = expression.starts_with("sum") && expression.contains(name);
            assert!(!is_added, "{panel}: {expression}");
        }
    }
}

#[test]
fn the_board_is_one_that_grafana_10_takes() {
    let board = board();
    assert_eq!(board["schemaVersion"], 38, "that of Grafana 10");
    assert_eq!(
        board["id"],
        Value::Null,
        "or an import takes the place of another board"
    );
    let rows: Vec<_> = list(&board, "panels")
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|row| row["title"].as_str().unwrap())
        .collect();
    let begin = [
        "Overview",
        "Queue $queue",
        "Nodes",
        "Store: Redis",
        "Journal",
        "Schedules",
        "Outboxes",
    ];
    assert_eq!(rows.len(), begin.len());
    assert!(
        rows.iter()
            .zip(begin)
            .all(|(row, begin)| row.starts_with(begin)),
        "{rows:?}"
    );

    let variables: Vec<_> = list(&board["templating"], "list")
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "job", "queue"]);

    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in list(&board, "panels") {
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "an id twice: {panel}"
        );
        let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{panel}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "two panels in one place: {panel}");
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(
            panel["description"].as_str().unwrap().ends_with('.'),
            "{panel}"
        );
        assert!(!list(panel, "targets").is_empty());
        for target in list(panel, "targets") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel}");
            let expression = target["expr"].as_str().unwrap();
            for part in expression.split('$').skip(1) {
                let known = ["job\"", "queue\"", "__rate_interval]"];
                assert!(
                    known.iter().any(|known| part.starts_with(known)),
                    "{expression}"
                );
            }
        }
    }
}
