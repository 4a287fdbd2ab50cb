//! The pages, one a file.

pub(crate) mod audit;
pub(crate) mod dead;
pub(crate) mod edit;
pub(crate) mod event;
pub(crate) mod find;
pub(crate) mod history;
pub(crate) mod locate;
pub(crate) mod nodes;
pub(crate) mod now;
pub(crate) mod queue;
pub(crate) mod queues;
pub(crate) mod records;
pub(crate) mod schedule;
pub(crate) mod schedules;
