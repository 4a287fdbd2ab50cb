//! The board and the alerts of `dashboards/`, and the page that Prometheus reads: each expression
//! is asked of a real server that scrapes a real bus under load.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod board;
mod catalogue;
mod expressions;
mod load;
mod rules;
mod scraped;
mod served;
