//! Every form that a handler function may have, with the lints of a strict crate.

#![deny(warnings, missing_docs, missing_debug_implementations, unsafe_code)]
#![warn(clippy::pedantic)]

use std::{convert::Infallible, rc::Rc};

use duly::{BlockingHandler, Context, Event, Failure, Handler, State, delay_event};

/// A state.
#[derive(Debug)]
pub struct Db;

/// Only the event.
#[delay_event(queue = "event")]
pub async fn event_alone(event: Event<u64>) -> Result<(), Failure> {
    drop(event);
    Ok(())
}

/// The event and the context, under their full names.
#[delay_event(queue = "full-names")]
pub async fn full_names(_: duly::Event<Vec<String>>, _: &duly::Context) -> Result<(), Failure> {
    Ok(())
}

/// States before the context, taken apart and whole; an error of its own.
#[delay_event(queue = "states")]
pub async fn states(
    mut event: Event<u64>,
    State(db): State<Db>,
    cx: &Context,
    numbers: duly::State<Vec<u64>>,
) -> Result<(), std::fmt::Error> {
    event.payload += numbers.0[0];
    let _kept = (event, cx, db);
    std::future::ready(()).await;
    Err(std::fmt::Error)
}

/// Blocks; what it holds need not be `Send`.
#[delay_event(queue = "blocking", blocking)]
fn blocking(event: Event<u64>, _cx: &Context, _db: State<Db>) -> Result<(), Infallible> {
    drop(Rc::new(event));
    Ok(())
}

/// Lint levels go along, and so do other attributes.
#[delay_event(queue = "attributes", register = false)]
#[expect(unused_variables, reason = "shows that attributes go along")]
#[inline]
pub async fn attributes(event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

mod inner {
    use super::{Db, Event, Failure, delay_event};

    /// Sees what stands around it.
    #[delay_event(queue = "inner")]
    pub(super) async fn inner(_event: Event<u64>) -> Result<(), Failure> {
        let _db: Option<Db> = None;
        helper();
        Ok(())
    }

    fn helper() {}
}

fn asynchronous<H: Handler>(_: H) {}
fn blocks<H: BlockingHandler>(_: H) {}

fn main() {
    /// Inside another function.
    #[delay_event(queue = "local")]
    async fn local(_event: Event<()>) -> Result<(), Failure> {
        Ok(())
    }

    asynchronous(event_alone {});
    asynchronous(full_names {});
    asynchronous(states {});
    asynchronous(attributes {});
    asynchronous(inner::inner {});
    asynchronous(local {});
    blocks(blocking {});
}
