//! The options of a queue, and the grammars of their values: for `duly`, which reads them while a
//! program runs, and for `duly-macros`, which reads them while it is compiled; and the pace of bulk
//! operations, for `duly` and for the dashboard.
//!
//! [`queue_options!`] is the table of the options; everything else that knows their names comes from
//! it: the fields and the setters of `QueueOptions`, `QueueChoices` and `Annotation`, the keys of
//! settings, the keys of `#[delay_event]`, and the tables of the documentation.

pub mod backoff;
pub mod duration;
mod kind;
pub mod late;
pub mod pace;
pub mod rate;
mod table;

pub use kind::{Kind, Measure};
pub use table::{QUEUE_OPTIONS, QueueOption, queue_option};
