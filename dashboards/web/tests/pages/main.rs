//! The pages of a dashboard, as a client of HTTP gets them.

#![allow(clippy::unwrap_used)] // these are tests

mod bounds;
mod crowd;
mod edit;
mod forms;
mod lasting;
mod redis;
mod schedules;
mod site;
mod texts;
