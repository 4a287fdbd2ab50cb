//! Carrying: what outboxes hold is loaded into the journal.

mod load;
mod pass;

pub(super) use self::pass::Carrier;
