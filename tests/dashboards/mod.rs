//! Tests of `dashboards/` and of the metrics page: each expression is evaluated by a real
//! Prometheus server that scrapes a real bus under load.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod board;
mod catalogue;
mod expressions;
mod load;
mod rules;
mod scraped;
mod served;
