//! Two tenants of a server: one learns nothing of the other, and does it no harm.

mod crowd;
mod learns;
mod measured;
mod records;
mod reserved;
mod shape;
mod worst;
