//! The seams, and what a planted bug does at each.

mod node;
mod store;

use std::collections::BTreeSet;

use duly::__internal::Bucket;
use duly::records::NodeId;

pub use self::store::remembers;
use crate::network::Caller;
use crate::store::Body;

/// What planted bugs have to remember.
#[derive(Debug, Default)]
pub struct Planted {
    fetches: BTreeSet<(NodeId, usize, u64)>,
    calls: Vec<Caller>,
    number: u64,
    /// Which bucket was refused to which node, in which of its lives.
    refused: BTreeSet<(usize, u32, usize)>,
    written: Option<Vec<Bucket<Body>>>,
    /// For each node until when its one line to the store is taken.
    lines: Vec<u64>,
}
