//! Tests of functions of the reference store that only a persistent store uses.

mod heads;
mod held;
mod kit;
mod restored;
