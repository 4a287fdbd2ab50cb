//! Rights over time: a token that ends on one server has ended for every request that lasts on
//! another one, whatever that waits for: an event, a reply, room, the rest of its own body, or the
//! next of its many steps.

mod bodies;
mod listed;
mod scans;
pub(crate) mod turns;
mod waits;

use reqwest::Method;
use serde_json::{Value, json};

use self::bodies::{
    a_body_that_is_thrown_away_is_checked_at_its_end,
    a_body_that_takes_its_time_is_checked_at_its_end,
};
use self::turns::{
    what_waits_for_a_forecast_ends_with_its_token_everywhere,
    what_waits_for_its_turn_ends_with_its_token_everywhere,
};
use self::waits::{
    what_waits_for_a_reply_ends_with_its_token_everywhere,
    what_waits_for_an_event_ends_with_its_token_everywhere,
};
use crate::rights::Tenant;
use crate::servers;
use crate::world::{World, reply, until, with_prefix};

/// How a token ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Revoked,
    Expired,
    /// It is made again, for another queue.
    Narrowed,
}

const ENDS: [End; 3] = [End::Revoked, End::Expired, End::Narrowed];

impl End {
    async fn token(self, at: &World) -> String {
        self.token_of(at, 6).await
    }

    /// Makes a token; one that expires does so after some seconds.
    async fn token_of(self, at: &World, seconds: u32) -> String {
        let more = match self {
            Self::Expired => format!("&expires_in={seconds}"),
            Self::Revoked | Self::Narrowed => String::new(),
        };
        at.new_token("ns", &more).await
    }

    /// Ends a token at one of two servers; when this returns it has ended on both. By which moment a token
    /// has expired each knows from a reply of the clock that they share.
    async fn of(self, token: &str, at: &World, server: &World) {
        let revoke = async || {
            let path = format!("/token/ns/{token}");
            at.admin(Method::DELETE, &path).await.is(204);
        };
        match self {
            Self::Revoked => revoke().await,
            Self::Narrowed => {
                revoke().await;
                let path = format!("/token/ns?description=d&token={token}&queues=another");
                at.admin(Method::POST, &path).await.is(201);
            }
            Self::Expired => {
                for server in [at, server] {
                    let tenant = Tenant(server, token.to_owned());
                    until("the token has expired", async || {
                        let look = tenant.request(Method::GET, "/api/ns/none/peek");
                        reply(look).await.status == 401
                    })
                    .await;
                }
            }
        }
    }
}

fn is_refused(status: u16) -> bool {
    matches!(status, 401 | 403)
}

/// Makes a test of each case, with two servers that share their tokens: on stores that they share as
/// well, and each on a file of its own; and with one, which is both.
macro_rules! on_two_servers {
    ($($case:ident)*) => {
        mod one {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                use $crate::world::{Place, World};
                let server = World::start(Place::Embedded).await;
                super::$case(&server, &server).await;
            }
        )*}
        mod redis { $crate::lasting::of_one_store!(Redis: $($case)*); }
        mod cluster { $crate::lasting::of_one_store!(Cluster: $($case)*); }
        mod files {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                use super::*;
                let state = with_prefix(&servers::shared().url());
                let server = World::start_beside(&state).await;
                super::$case(&server, &World::start_beside(&state).await).await;
            }
        )*}
    };
}

macro_rules! of_one_store {
    ($place:ident: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::world::{Place, World};
            let server = World::start(Place::$place).await;
            let other = server.another().await;
            super::$case(&server, &other).await;
        }
    )*};
}

pub(crate) use of_one_store;

on_two_servers! {
    what_waits_for_an_event_ends_with_its_token_everywhere
    what_waits_for_a_reply_ends_with_its_token_everywhere
    a_body_that_takes_its_time_is_checked_at_its_end
    a_body_that_is_thrown_away_is_checked_at_its_end
    what_waits_for_its_turn_ends_with_its_token_everywhere
    what_waits_for_a_forecast_ends_with_its_token_everywhere
}

async fn push(world: &World, queue: &str, payload: u64) -> String {
    let tenant = Tenant(world, world.token.clone());
    let body = json!({"events": [{"payload": payload, "attempts": 9}]});
    let path = format!("/v1/ns/queues/{queue}/events");
    let pushed = tenant.send(Method::POST, &path, &body).await.is(201);
    pushed[0]["id"].as_str().unwrap().to_owned()
}

async fn lease(world: &World, queue: &str) -> Value {
    let tenant = Tenant(world, world.token.clone());
    let path = format!("/v1/ns/queues/{queue}/leases");
    let body = json!({"ttr_ms": 600_000, "wait_ms": 8_000});
    let leased = tenant.send(Method::POST, &path, &body).await.is(200);
    leased[0].clone()
}
