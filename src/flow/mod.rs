//! The driver: from the ring to a queue's workers.

#[cfg(feature = "testing")]
pub(crate) mod bench;
pub(crate) mod board;
mod feed;
pub(crate) mod pool;
pub(crate) mod ring;
mod running;
pub(crate) mod wake;
pub(crate) mod work;
mod worker;
