//! What a real Prometheus reads of a program under load, and what it answers to the board and the
//! alerts.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use duly::__private::{Registration, inventory};
use serde_json::Value;

use crate::dashboards::catalogue::Page;
use crate::dashboards::load::PROGRAM;
use crate::dashboards::{board, rules};
use crate::servers::{Prometheus, check_metrics};

/// What the variables of the board stand for.
const VARIABLES: [(&str, &str); 3] = [
    ("$job", "duly"),
    ("$queue", "orders"),
    ("$__rate_interval", "30s"),
];

/// Series of alerts that there are only once something is wrong.
const ONLY_WHEN_WRONG: [&str; 1] = [r#"duly_store_errors_total{kind="corrupt"}"#];

/// The queues without an annotation: of handlers, one that is pulled, and that of schedules.
const OTHERS: [&str; 4] = ["letters", "orders", "pulled", "duly.schedules"];

/// How the metrics of relays begin; tests of `duly-outbox` see them told.
const OF_RELAYS: &str = "duly_relay_";

#[allow(clippy::disallowed_methods)] // real time: this is about a real process
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "not in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_address_and_setting() {
    let said = &PROGRAM.taken;
    assert!(
        said.contains(&format!("metrics.listen is {}", PROGRAM.taken_at)),
        "{said}"
    );
    assert!(said.contains("Address already in use"), "{said}");
    let said = &PROGRAM.second;
    assert!(said.contains(&PROGRAM.address.to_string()), "{said}");
    assert!(said.contains("use the same address"), "{said}");
}

#[test]
fn the_page_holds_every_row_of_the_catalogue_and_nothing_else_of_duly() {
    let mut wrong = Vec::new();
    // The first sample, and the first events that are read ahead, take a moment.
    until("the page is whole", || {
        wrong = Page::read(&PROGRAM.page()).differences();
        wrong.is_empty()
    });
    let page = Page::read(&PROGRAM.page());
    assert_eq!(
        page.values("duly_queue_depth", "state"),
        ["dead", "leased", "ready", "scheduled"]
    );
    assert_eq!(
        page.values("duly_queue_due", "within"),
        ["10m", "10s", "1h", "1m"]
    );
    // Those with an annotation have their zeros from the beginning.
    let annotated = inventory::iter::<Registration>().map(|found| found.annotation().queue);
    let queues: BTreeSet<_> = annotated.chain(OTHERS).collect();
    let shown = page.values("duly_pushed_total", "queue");
    assert_eq!(shown, queues.into_iter().collect::<Vec<_>>());
}

#[test]
fn promtool_finds_nothing_wrong_with_the_page() {
    until("it is under load", || {
        PROGRAM.page().contains("duly_settled_total")
    });
    assert_eq!(check_metrics(&PROGRAM.page()), Ok(()));
    assert!(
        check_metrics("# TYPE a_total gauge\na_total 1\n").is_err(),
        "it looks"
    );
}

#[test]
fn every_expression_of_the_board_answers_and_every_alert_is_evaluated() {
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/alerts.yml");
    let prometheus = Prometheus::start(&[PROGRAM.address], &alerts);
    let ask = |expression: &str| -> Result<Vec<Value>, String> {
        let answer = prometheus.api("query", &[("query", expression)]);
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"]["result"].as_array().unwrap().clone()),
            _ => Err(answer["error"].to_string()),
        }
    };
    let has_series = |expression: &str| match ask(expression) {
        Ok(series) => !series.is_empty(),
        Err(error) => panic!("{expression}: {error}"),
    };
    until("it has scraped", || {
        has_series("count_over_time(duly_live_nodes[1m]) >= 5 and on () duly_live_nodes == 2")
    });
    assert!(ask("sum by (").is_err(), "it looks");

    for (panel, expression) in board::expressions() {
        let mut asked = expression.clone();
        for (variable, value) in VARIABLES {
            asked = asked.replace(variable, value);
        }
        // A relay has its metrics from its start, and this program has none.
        assert!(
            has_series(&asked) || asked.contains(OF_RELAYS),
            "{panel} is empty: {asked}"
        );
    }
    for (alert, expression) in rules::alerts() {
        ask(&expression).unwrap_or_else(|error| panic!("{alert}: {error}"));
        for series in selectors(&expression) {
            let may_lack =
                ONLY_WHEN_WRONG.contains(&series.as_str()) || series.starts_with(OF_RELAYS);
            assert!(
                may_lack || has_series(&series),
                "{alert}: there is no {series}"
            );
        }
    }

    let mut states = Vec::new();
    until("the alerts are evaluated", || {
        let answer = prometheus.api("rules", &[]);
        let rules = answer["data"]["groups"][0]["rules"].as_array().cloned();
        let rules = rules.unwrap_or_default();
        states = rules
            .iter()
            .map(|rule| (text(rule, "name"), text(rule, "state")))
            .collect();
        rules.len() == rules::alerts().len() && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let state = |name: &str| &states.iter().find(|(alert, _)| alert == name).unwrap().1;
    assert_ne!(state("DulyDeadLetters"), "inactive", "the load leaves some");
    assert_eq!(state("DulyNoLiveConsumer"), "inactive");
    assert_eq!(state("DulyClockSkew"), "inactive");
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap().to_owned()
}

/// The series that an expression names: `duly_workers{queue="a"}`, without a span behind.
fn selectors(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("duly_") {
        let rest = &expression[at..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let matchers = if rest.starts_with('{') {
            &rest[..=rest.find('}').expect("a brace is closed")]
        } else {
            ""
        };
        found.push(format!("{name}{matchers}"));
    }
    found
}
