//! duly

#[allow(dead_code, reason = "nothing uses the pool yet")]
mod flow;

#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod __bench {
    //! What `benches/ring.rs` measures. Not a public interface: it may change with any version.
    pub use crate::flow::bench::{BenchFeed, BenchPool, BenchPublisher, Deadlines};
}
