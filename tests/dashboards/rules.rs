//! The alerts.

use yaml_rust2::{Yaml, YamlLoader};

use crate::dashboards::expressions::unknown_names;
use crate::servers::promtool;

const SCALING: &str = include_str!("../../server/deploy/kubernetes/scaling.yaml");
const ALERTS: &str = include_str!("../../dashboards/alerts.yml");
const PLAYED: &str = include_str!("alerts_test.yml");
const OPERATIONS: &str = include_str!("../../src/docs/operations.md");
const PAGE: &str = include_str!("../../src/docs/dashboards.md");

/// Each alert with its expression.
pub(crate) fn alerts() -> Vec<(String, String)> {
    let file = YamlLoader::load_from_str(ALERTS).expect("it is YAML");
    let text = |rule: &Yaml, name: &str| rule[name].as_str().expect("a text").to_owned();
    let groups = file[0]["groups"].as_vec().expect("groups");
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_vec().expect("rules"));
    rules
        .map(|rule| (text(rule, "alert"), text(rule, "expr")))
        .collect()
}

#[test]
fn the_alerts_name_only_metrics_and_labels_that_there_are() {
    for (alert, expression) in alerts() {
        assert_eq!(unknown_names(&expression), [""; 0], "{alert}");
    }
}

#[test]
fn what_scales_workers_names_only_metrics_and_labels_that_there_are() {
    let file = YamlLoader::load_from_str(SCALING).expect("it is YAML");
    let triggers = file[0]["spec"]["triggers"].as_vec().expect("triggers");
    assert!(!triggers.is_empty());
    for trigger in triggers {
        let query = trigger["metadata"]["query"].as_str().expect("a query");
        assert_eq!(unknown_names(query), [""; 0]);
    }
}

/// The forecasts of what scales workers, in seconds of a handler: with KEDA, and in the guide.
fn forecasts() -> [String; 2] {
    let file = YamlLoader::load_from_str(SCALING).expect("it is YAML");
    let triggers = file[0]["spec"]["triggers"].as_vec().expect("triggers");
    let mut queries = triggers
        .iter()
        .filter_map(|trigger| trigger["metadata"]["query"].as_str());
    let forecast = queries.find(|it| it.contains("queue_due"));
    let guide = PAGE.split("```").find(|it| it.contains("within=\"1m\""));
    let guide = guide.and_then(|it| it.strip_prefix("text\n"));
    let guide = guide.expect("the guide has one");
    assert_eq!(unknown_names(guide), [""; 0]);
    let guide = format!("sum({guide})");
    [forecast.expect("there is one").to_owned(), guide]
}

/// A worker that handled nothing lately has no mean, which is not a number: the herd that comes after a
/// quiet time is what workers are added for.
#[test]
fn what_scales_workers_has_a_value_where_no_handler_has_run_lately() {
    let queue = "queue=\"shop.close\"";
    let mut plays = "tests:\n".to_owned();
    for (sum, count, expected) in [
        ("", "", 10),                  // no handler is measured
        ("0x20", "0x20", 10),          // it has just started
        ("50x20", "25x20", 20),        // it has run, and is idle
        ("50+180x20", "25+60x20", 30), // as it runs now
    ] {
        for forecast in forecasts() {
            plays += &format!(
                r#"
  - interval: 1m
    input_series:
      - {{series: 'duly_queue_due{{{queue}, within="1m"}}', values: '600x20'}}
      - {{series: 'duly_handler_seconds_sum{{{queue}}}', values: '{sum}'}}
      - {{series: 'duly_handler_seconds_count{{{queue}}}', values: '{count}'}}
    promql_expr_test:
      - expr: {forecast:?}
        eval_time: 15m
        exp_samples: [{{labels: "{{}}", value: {expected}}}]
"#
            );
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scaling_test.yml");
    std::fs::write(&path, plays).expect("it is written");
    promtool(&["test", "rules", path.to_str().expect("a path")]);
}

#[test]
fn each_alert_is_told_of_in_the_guide_and_severity_is_one_of_two() {
    for (alert, _) in alerts() {
        assert!(PAGE.contains(&format!("| `{alert}` |")), "{alert}");
    }
    let severities = ALERTS.matches("severity: ").count();
    let known = ["severity: warning\n", "severity: critical\n"];
    let known: usize = known
        .iter()
        .map(|known| ALERTS.matches(known).count())
        .sum();
    assert_eq!((severities, known), (alerts().len(), alerts().len()));
}

/// The guide for operators has a table of what to watch.
#[test]
fn each_metric_that_operators_are_to_watch_has_an_alert() {
    const BOUNDS_OF_THEIR_OWN: [&str; 2] = ["retries", "waiting records"];
    let table = OPERATIONS
        .split("| condition | source | alert when |\n")
        .nth(1);
    let rows = table.expect("the table").lines().skip(1);
    let rows = rows.map_while(|row| row.strip_prefix('|'));
    let mut without = Vec::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let names = cells[1].split('`').filter(|it| it.starts_with("duly_"));
        let names: Vec<_> = names.collect();
        let is_alerted = |name: &&str| alerts().iter().any(|(_, it)| it.contains(*name));
        if !names.is_empty() && !names.iter().any(is_alerted) {
            without.push(cells[0]);
        }
    }
    assert_eq!(without, BOUNDS_OF_THEIR_OWN);
}

#[test]
fn the_rules_are_ones_that_prometheus_takes() {
    let said = promtool(&["check", "rules", "dashboards/alerts.yml"]);
    assert!(
        said.contains(&format!("{} rules found", alerts().len())),
        "{said}"
    );
}

#[test]
fn each_alert_fires_when_it_should_and_not_when_all_is_well() {
    promtool(&["test", "rules", "tests/dashboards/alerts_test.yml"]);
    let (well, wrong) = PLAYED
        .split_once("- name: two in a hundred")
        .expect("two parts");
    for (alert, _) in alerts() {
        let silent = format!("alertname: {alert}}}");
        assert!(
            well.contains(&silent),
            "{alert} is not played where nothing is wrong"
        );
        let fires = [
            format!("alertname: {alert}\n"),
            format!("alertname: {alert}, exp_alerts"),
        ];
        assert!(
            fires.iter().any(|fires| wrong.contains(fires)),
            "{alert} never fires"
        );
    }
}
