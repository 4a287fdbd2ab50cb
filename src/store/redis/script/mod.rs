//! Scripts of a store: assembled from Lua, called with named arguments, answered by named fields.
//!
//! What a script is called with and what it returns is declared once, by [`script!`](table::script),
//! and Lua and Rust both take the names from there. No script is here: `op` and `hub` have them.

pub(in crate::store::redis) mod call;
pub(crate) mod keys;
pub(in crate::store::redis) mod lifecycle;
pub(in crate::store::redis) mod names;
pub(crate) mod reader;
pub(in crate::store::redis) mod server_clock;
pub(in crate::store::redis) mod source;
#[macro_use]
pub(in crate::store::redis) mod table;
