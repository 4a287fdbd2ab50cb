//! Tests of functions of the engine that only a persistent store uses.

mod heads;
mod held;
mod kit;
mod restored;
