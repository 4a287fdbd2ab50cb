//! The pages of a dashboard, as a client of HTTP gets them.

#![allow(clippy::unwrap_used)] // these are tests

mod at_once;
mod audit;
mod audit_lines;
mod bounds;
mod bulk;
mod chosen;
mod crowd;
mod edit;
mod event;
mod filters;
mod find;
mod forms;
mod history;
mod lasting;
mod narrow;
mod outbox;
mod redis;
mod refused;
mod replay;
mod schedules;
mod site;
mod texts;
mod unread;
