//! What a handler function may take as arguments.

use std::sync::Arc;

/// The shared state of type `T`, as an argument of a handler function.
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);
