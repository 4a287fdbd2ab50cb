//! Bytes and values: how a payload and an envelope lie in a store.
//!
//! A payload that is plain JSON lies there as it is. Any other describes itself: a
//! [frame](Frame) says by which codec it was written and under which key it is encrypted, so that
//! what was pushed before a queue's codec or key was changed is read after it all the same.

mod cipher;
mod form;
mod frame;
mod keys;
mod opened;
mod raw;
mod values;
pub(crate) mod wire;

pub use self::form::Codec;
pub(crate) use self::frame::Form;
pub use self::frame::{Frame, MARK};
pub use self::keys::{KEY_ID_BYTES_MAX, KEYS_MAX, Key, KeyRing};
pub(crate) use self::opened::UNTOLD;
pub use self::opened::{Opened, Unopened};
pub use self::raw::Raw;
pub(crate) use self::values::encode;
