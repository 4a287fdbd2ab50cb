//! Users' code as an enemy: a table of misdeeds, at every place where users' code is called.
//!
//! A row is a place (`places.rs` for what an event meets on its way, `parts.rs` for what a bus is
//! built from, `neighbours.rs` and `pulls.rs` for what it calls), a column a misdeed (`misdeed.rs`). Of each cell the same is expected: the event ends
//! as documented, with a record; the queue goes on with the next one; nothing stays leased; and
//! the bus shuts down in its time. A new place or misdeed is a variant and its line in `expected`.

mod clocks;
mod ends;
mod misdeed;
mod neighbours;
mod on_redis;
mod parts;
mod places;
mod pulls;
mod pushes;
mod recorder;
mod records;
mod table;
