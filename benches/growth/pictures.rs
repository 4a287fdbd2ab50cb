//! The pictures of performance.md.

use std::fs;

use crate::Result;
use crate::chart::{Panel, Picture, Series, Unit};
use crate::results::{Results, project};

/// A figure that makes a chart: its title, its name, and how it is written.
type Chart = (&'static str, &'static str, Unit);

/// A part, and what is drawn of it.
struct Part {
    name: &'static str,
    title: &'static str,
    /// What grows, and how its sizes are written.
    along: Option<(&'static str, Unit)>,
    charts: &'static [Chart],
}

const PUSHED: Chart = ("pushed a second, in batches", "push_a_second", Unit::Count);
const DRAINED: Chart = (
    "handled a second, of a backlog",
    "drain_a_second",
    Unit::Count,
);
const MEDIAN: Chart = ("lateness at 1,000 a second, p50", "p50_ms", Unit::Ms);
const NEARLY_ALL: Chart = ("lateness at 1,000 a second, p99", "p99_ms", Unit::Ms);

const PARTS: [Part; 6] = [
    Part {
        name: "pending",
        title: "More events pending",
        along: Some(("events pending", Unit::Count)),
        charts: &[
            PUSHED,
            DRAINED,
            ("memory an event", "bytes_an_event", Unit::Bytes),
            MEDIAN,
            NEARLY_ALL,
            ("a bus starts within", "open_ms", Unit::Ms),
        ],
    },
    Part {
        name: "queues",
        title: "More queues",
        along: Some(("queues", Unit::Count)),
        charts: &[
            PUSHED,
            DRAINED,
            ("memory of the process a queue", "kb_a_queue", Unit::Kb),
            MEDIAN,
            NEARLY_ALL,
            ("a bus starts within", "open_ms", Unit::Ms),
        ],
    },
    Part {
        name: "buckets",
        title: "More buckets of one queue",
        along: Some(("buckets", Unit::Count)),
        charts: &[PUSHED, DRAINED, NEARLY_ALL],
    },
    Part {
        name: "nodes",
        title: "More nodes on one Redis server, all on one machine of two cores",
        along: Some(("nodes", Unit::Count)),
        charts: &[
            DRAINED,
            NEARLY_ALL,
            ("memory a node", "kb_a_node", Unit::Kb),
        ],
    },
    Part {
        name: "payloads",
        title: "Larger payloads",
        along: Some(("bytes of a payload", Unit::Bytes)),
        charts: &[
            ("pushed a second", "push_a_second", Unit::Mb),
            ("handled a second, of a backlog", "drain_a_second", Unit::Mb),
            ("lateness, p99", "p99_ms", Unit::Ms),
        ],
    },
    Part {
        name: "cluster",
        title: "A Redis Cluster of three masters beside one server, all on one machine of two cores",
        along: None,
        charts: &[PUSHED, DRAINED, NEARLY_ALL],
    },
];

/// Stores by name in the results, name in the picture and color.
const STORES: [(&str, &str, usize); 3] = [
    ("embedded", "embedded store", 0),
    ("redis", "Redis", 1),
    ("three-masters", "three masters", 2),
];

/// Draws a picture of each part that has results.
pub(crate) fn draw(results: &Results) -> Result {
    for part in PARTS {
        let panels: Vec<_> = part
            .charts
            .iter()
            .map(|(title, figure, unit)| Panel {
                title: (*title).to_owned(),
                unit: *unit,
                series: series(results, part.name, figure, *unit),
            })
            .collect();
        let has_values = |color| {
            let mut series = panels.iter().flat_map(|panel| &panel.series);
            series.any(|series| series.color == color)
        };
        let key = STORES
            .into_iter()
            .filter(|(_, _, color)| has_values(*color));
        let key: Vec<_> = key
            .map(|(_, name, color)| (name.to_owned(), color))
            .collect();
        if key.is_empty() {
            continue;
        }
        let picture = Picture {
            title: part.title.to_owned(),
            along: part.along.map(|(along, unit)| (along.to_owned(), unit)),
            key,
            panels,
        };
        let folder = project().join("src/docs/pictures");
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join(format!("growth-{}.svg", part.name)),
            picture.svg(),
        )?;
    }
    Ok(())
}

fn series(results: &Results, part: &str, figure: &str, unit: Unit) -> Vec<Series> {
    let mut series = Vec::new();
    for (kept, _, color) in STORES {
        let mut values = results.line(part, kept, figure);
        if matches!(unit, Unit::Mb) {
            // Events a second, of so many bytes each.
            let bytes = |(size, events): &mut (u64, f64)| *events *= *size as f64 / 1e6;
            values.iter_mut().for_each(bytes);
        }
        if !values.is_empty() {
            series.push(Series { color, values });
        }
    }
    series
}
