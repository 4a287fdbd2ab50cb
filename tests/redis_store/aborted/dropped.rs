//! Calls of the store that are dropped at an await: each was done, or was not, and a repeat is right.

use std::collections::BTreeMap;

use duly_conformance::store_contract::shapes::{Dues, Own};

use super::acts::{ACTS, Act};
use super::{Case, shape};
use crate::redis_store::kit::fresh;
use crate::redis_store::opened::polled;
use crate::servers::Redis;

/// No call is polled more often.
const POLLS_MAX: usize = 200;

#[tokio::test]
async fn a_call_that_is_dropped_at_any_await_is_repeated() {
    let server = Redis::plain();
    let (mut dropped, mut wrong) = (0, BTreeMap::new());
    for act in ACTS {
        let of = match act {
            Act::Replace => shape(Own::UniqueKey, Dues::Now),
            Act::Fetch { ahead: true, .. } => shape(Own::Nothing, Dues::Each),
            _ => shape(Own::Nothing, Dues::Now),
        };
        for polls in 0.. {
            assert!(polls < POLLS_MAX, "{act:?} is never done");
            let (case, op) = Case::prepared(&fresh(&server.url()).0, of, act).await;
            let what = format!("{act:?}, dropped after {polls} polls");
            let first = polled(case.bare.apply(op.clone()), polls).await;
            let is_done = first.is_some();
            let reply = match first {
                Some(reply) => reply,
                None => case.bare.apply(op).await,
            };
            let reply = reply.unwrap_or_else(|error| panic!("{what}: {error}"));
            case.is_right(act, &reply, (&what, &mut wrong)).await;
            if is_done {
                break;
            }
            dropped += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(dropped >= 2 * ACTS.len(), "only {dropped} were dropped");
}
