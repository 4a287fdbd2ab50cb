//! A unit struct, structs with fields, a generic one that is left to the program, and visibility.

#![deny(warnings, missing_docs, missing_debug_implementations, unsafe_code)]

use std::{fmt, marker::PhantomData};

use duly::{Annotated, Context, Event, Failure, Handler, delay_event};

/// A unit struct needs nothing but itself.
#[delay_event(queue = "unit")]
#[derive(Debug)]
pub struct Unit;

/// Fields come from `Default`.
#[delay_event(queue = "fields", timeout = "30s", attempts = 3)]
#[derive(Debug, Default)]
pub struct Fields {
    /// How many orders one close may hold.
    pub most: usize,
}

/// Braces without fields.
#[delay_event(queue = "braces",)]
#[derive(Debug)]
pub struct Braces {}

/// Not made by `Default`, so not found by itself.
#[delay_event(queue = "by-hand", register = false)]
#[derive(Debug)]
pub struct ByHand(pub &'static str);

/// One handler for each `T`.
#[delay_event(queue = "generic", register = false)]
pub struct Generic<T: fmt::Debug>(pub PhantomData<T>)
where
    T: Clone + Send + Sync + 'static;

impl<T: fmt::Debug + Clone + Send + Sync> fmt::Debug for Generic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generic")
    }
}

impl<T: fmt::Debug + Clone + Send + Sync + 'static> Handler for Generic<T> {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

macro_rules! handlers {
    ($($handler:ty),*) => {$(
        impl Handler for $handler {
            type Payload = u64;

            async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
                Ok(())
            }
        }
    )*};
}

handlers!(Unit, Fields, Braces, ByHand, Said);

/// What a macro passes on is read as if it stood there.
macro_rules! said {
    ($queue:expr, $buckets:literal) => {
        /// Made by a macro.
        #[delay_event(queue = $queue, buckets = $buckets)]
        #[derive(Debug)]
        pub struct Said;
    };
}

said!("said", 4);

fn main() {
    assert_eq!(Unit::ANNOTATION.queue, "unit");
    assert_eq!(Generic::<u8>::ANNOTATION.queue, "generic");
    assert_eq!(Said::ANNOTATION.buckets, Some(4));
}
