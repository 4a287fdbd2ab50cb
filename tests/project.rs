//! The project itself: its architecture, settings, annotation, dashboards, release, planted bugs and
//! test servers.

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
mod release;
mod servers_work;
