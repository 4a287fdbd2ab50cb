//! How much one queue can take.

/// The credits of one queue: they bound what is in its ring, its stash and its handlers together.
///
/// A credit is taken when an event is published and given back when its handler ends, so a full
/// ring stops fetching for this queue and for no other.
#[derive(Debug, Default)]
pub(crate) struct QueueCare {
    /// How many events may be published and not ended; 0 = paused.
    pub(crate) capacity: usize,
    /// Published and not ended.
    pub(crate) outstanding: usize,
    /// Asked for by fetches that are on their way.
    pub(crate) reserved: usize,
    /// Held read ahead.
    pub(crate) ahead: usize,
    /// Buckets, by their place in the node.
    pub(crate) buckets: Vec<usize>,
}

impl QueueCare {
    /// How many more events can be asked for.
    pub(crate) fn room(&self) -> usize {
        self.capacity
            .saturating_sub(self.outstanding + self.reserved)
    }

    /// How many of these one fetch asks for: half of them where there are other buckets, so that
    /// one that does not answer leaves room for the others.
    pub(crate) fn share(&self) -> usize {
        match self.buckets.len() {
            0 | 1 => self.room(),
            _ => self.room().div_ceil(2),
        }
    }

    /// How many events that are held already can be published.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.outstanding)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.capacity == 0
    }
}
