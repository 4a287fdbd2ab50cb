//! duly

#[allow(dead_code, reason = "nothing uses the pool yet")]
mod flow;
