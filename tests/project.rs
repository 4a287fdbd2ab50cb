//! The project itself: its architecture, settings, annotation, dashboards, planted bugs and test
//! servers.

// The macros' own files, which are under test in `macros`.
#[path = "../macros/src/backoff.rs"]
mod backoff;
#[path = "../macros/src/duration.rs"]
mod duration;
#[path = "../macros/src/late.rs"]
mod late;
#[path = "mutants/mutant.rs"]
mod mutant;
#[path = "mutants/plant/mod.rs"]
mod plant;
mod servers;

mod architecture;
mod config;
mod dashboards;
mod macros;
mod mutants;
mod neighbours;
mod quickstart;
mod servers_work;
