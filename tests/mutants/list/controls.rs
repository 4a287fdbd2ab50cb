use super::{contract, delivery, edit};
use crate::mutant::{Mutant, Promise::Controls};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "rate-ignored",
        breaks: Controls,
        bug: "the rate of a queue reaches nobody",
        edits: &[edit(
            "src/flow/lanes.rs",
            "            rate: control.rate,\n",
            "            rate: control.rate.filter(|_| false),\n",
        )],
        caught_by: delivery("a_rate_is_kept_in_every_second"),
        masked_by: None,
    },
    Mutant {
        name: "rate-not-shared",
        breaks: Controls,
        bug: "each node starts as many events as all together may",
        edits: &[edit(
            "src/core/rate.rs",
            "let every = f64::from(nodes) / self.per_second;",
            "let every = f64::from(nodes) * 0.0 + 1.0 / self.per_second;",
        )],
        caught_by: delivery("a_rate_is_shared_by_all_nodes"),
        masked_by: None,
    },
    Mutant {
        name: "pause-ignored",
        breaks: Controls,
        bug: "a paused queue goes on starting events",
        edits: &[edit(
            "src/flow/lanes.rs",
            "            true => 0,\n",
            "            true => course.chosen,\n",
        )],
        caught_by: delivery("a_paused_queue_starts_nothing_until_it_is_resumed"),
        masked_by: None,
    },
    Mutant {
        name: "setting-not-kept",
        breaks: Controls,
        bug: "embedded: what was set of a queue is forgotten by an open",
        edits: &[edit(
            "src/store/embedded/mod.rs",
            "hub: Hub::with(controls),",
            "hub: Hub::with(controls.into_iter().take(0).collect()),",
        )],
        caught_by: contract("what_is_set_is_kept_over_a_new_opening"),
        masked_by: None,
    },
];
