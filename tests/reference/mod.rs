//! What only a store that outlives its process asks of the reference store.

mod heads;
mod held;
mod kit;
mod restored;
