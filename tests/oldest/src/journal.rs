//! The journal contract, and what is promised of the file alone.

#[path = "../../journal/erase.rs"]
mod erase;
#[path = "../../journal/file.rs"]
mod file;
#[path = "../../journal/filters.rs"]
mod filters;
#[path = "../../journal/guide.rs"]
mod guide;
#[path = "../../journal/harness.rs"]
#[allow(dead_code)] // the journal in memory has its turn in the project's own tests
mod harness;
#[path = "../../journal/minutes.rs"]
mod minutes;
#[path = "../../journal/oracle.rs"]
mod oracle;
#[path = "../../journal/pages.rs"]
mod pages;
#[path = "../../journal/parts.rs"]
mod parts;
#[path = "../../journal/prune.rs"]
mod prune;
#[path = "../../journal/reopened.rs"]
mod reopened;
#[path = "../../journal/sample.rs"]
mod sample;
#[path = "../../journal/sqlite.rs"]
mod sqlite;
#[path = "../../journal/suite.rs"]
mod suite;
#[path = "../../journal/together.rs"]
mod together;
#[path = "../../journal/views.rs"]
mod views;
#[path = "../../journal/whole.rs"]
mod whole;
