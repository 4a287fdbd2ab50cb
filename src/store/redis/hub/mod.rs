//! What all processes of a store share, and how they learn of it.

pub(crate) mod notifications;
