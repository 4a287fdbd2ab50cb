//! What users' code may do instead of its duty.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use duly::prelude::*;
use futures_util::FutureExt;

/// One way to behave badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Misdeed {
    Panics,
    /// With a payload that panics when it is dropped.
    PanicsWithABomb,
    /// Returns the error that it may return.
    Fails,
    /// Writes, or leads on, for ever, whatever the writer says.
    NeverEnds,
    /// Writes a gigabyte, or as much as can be said there.
    IsHuge,
    /// Keeps its thread for a moment.
    Blocks,
    /// Calls the bus from within.
    Reenters,
}

pub(super) const MISDEEDS: [Misdeed; 7] = [
    Misdeed::Panics,
    Misdeed::PanicsWithABomb,
    Misdeed::Fails,
    Misdeed::NeverEnds,
    Misdeed::IsHuge,
    Misdeed::Blocks,
    Misdeed::Reenters,
];

/// A part of a huge text: 16,384 of them are a gigabyte.
const PART: &str = match str::from_utf8(&[b'x'; 65_536]) {
    Ok(part) => part,
    Err(_) => unreachable!(),
};

/// A value that panics when it is dropped.
pub(super) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        resume_unwind(Box::new("a bomb"));
    }
}

impl Misdeed {
    /// Commits it where nothing can be returned; returns for a misdeed that ends well. The bus is
    /// the one that was registered under this number.
    pub(super) fn commit(self, bus: u64) {
        match self {
            // Without a word to the console.
            Self::Panics => resume_unwind(Box::new("on purpose")),
            Self::PanicsWithABomb => resume_unwind(Box::new(Bomb)),
            Self::IsHuge => resume_unwind(Box::new(PART.repeat(64))),
            Self::Blocks => std::thread::sleep(std::time::Duration::from_millis(1)), // what blocks is what this is about
            Self::Reenters => call_from_within(bus),
            Self::Fails | Self::NeverEnds => {}
        }
    }

    /// Commits it while a text is written.
    pub(super) fn write(self, bus: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("so far ")?;
        match self {
            Self::Fails => return Err(fmt::Error),
            Self::NeverEnds => loop {
                let _ = f.write_str(PART);
            },
            Self::IsHuge => {
                for _ in 0..16_384 {
                    f.write_str(PART)?;
                }
            }
            other => other.commit(bus),
        }
        f.write_str("so good")
    }
}

/// The buses that can be called from within, by number: what is called has nothing else to find its
/// own by. There is no number 0.
static BUSES: Mutex<BTreeMap<u64, Bus>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A registered bus, until it is dropped.
pub(super) struct Registered(pub(super) u64);

impl Registered {
    pub(super) fn new(bus: &Bus) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        BUSES
            .lock()
            .expect("nothing panics in there")
            .insert(number, bus.clone());
        Self(number)
    }

    /// Another bus takes its number.
    pub(super) fn is_now(&self, bus: &Bus) {
        BUSES
            .lock()
            .expect("nothing panics in there")
            .insert(self.0, bus.clone());
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let bus = BUSES
            .lock()
            .expect("nothing panics in there")
            .remove(&self.0);
        drop(bus);
    }
}

/// Whatever a bus offers without a wait, and the first poll of what waits.
fn call_from_within(bus: u64) {
    let bus = BUSES
        .lock()
        .expect("nothing panics in there")
        .get(&bus)
        .cloned();
    let bus = bus.expect("a bus of this number");
    let _ = bus.load();
    let _ = bus.store_time();
    let own = bus.queue_named::<u64>("foes").expect("a legal name");
    assert!(own.try_publish(7).is_err(), "it has another payload");
    let other = bus.queue_named::<u64>("elsewhere").expect("a legal name");
    let _ = other.push(7, When::Now).now_or_never();
    let _ = bus.stats("foes").now_or_never();
    let _ = bus.records().page().now_or_never();
    drop(bus.shutdown(std::time::Duration::ZERO)); // made, and never polled
}
