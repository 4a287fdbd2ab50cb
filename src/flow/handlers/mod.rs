//! Handlers: the attempts that workers run, their execution and their replies.

pub(in crate::flow) mod attempt;
pub(in crate::flow) mod blocking_threads;
pub(in crate::flow) mod burning;
pub(in crate::flow) mod decode;
pub(in crate::flow) mod deps;
pub(in crate::flow) mod executor;
pub(in crate::flow) mod outside;
pub(in crate::flow) mod replies;
pub(in crate::flow) mod ticket;
pub(crate) mod waits;
