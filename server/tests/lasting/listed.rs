//! Every request that lasts is one of those above: a new one is found by the description.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{bodies, scans};
use crate::world::{Place, World};

/// The operations of `/v1` that wait, which `waits` has.
const WAITS: [&str; 5] = [
    "call",
    "getReply",
    "leaseEvents",
    "pushEventLines",
    "streamLeases",
];

/// Those that ask no store: what they list is of the shared state, and has a bound.
const OF_THE_STATE: [&str; 1] = ["listWebhooks"];

/// Returns the operations of a description that fulfil a condition, by their ids.
fn operations(description: &Value, is: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let paths = description["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    let operations = operations.filter(|operation| is(operation));
    let ids = operations.map(|operation| operation["operationId"].as_str().unwrap().to_owned());
    ids.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_that_lasts_is_tested() {
    let world = World::start(Place::Embedded).await;
    let description = world.get("/v1/openapi.json").await.is(200);
    let schema = |of: &Value| {
        let name = of["content"]["application/json"]["schema"]["$ref"].as_str();
        let name = name.and_then(|name| name.rsplit('/').next());
        description["components"]["schemas"][name.unwrap_or_default()].clone()
    };
    let with_body = operations(&description, |it| {
        it["requestBody"]["content"]["application/json"].is_object()
    });
    let tested = bodies::requests("", "", "").map(|(.., operation)| operation.to_owned());
    let tested = tested.into_iter().filter(|it| !it.is_empty());
    assert_eq!(with_body, tested.collect(), "with a body");
    let waits = operations(&description, |it| {
        let parameters = it["parameters"].as_array().cloned().unwrap_or_default();
        let lines = &it["requestBody"]["content"]["application/x-ndjson"];
        parameters.iter().any(|it| it["name"] == "wait_ms")
            || schema(&it["requestBody"])["properties"]["wait_ms"].is_object()
            || lines.is_object()
            || it["responses"]["200"]["content"]["text/event-stream"].is_object()
    });
    assert_eq!(waits, WAITS.map(str::to_owned).into(), "that wait");
    let steps = operations(&description, |it| {
        let parameters = it["parameters"].as_array().cloned().unwrap_or_default();
        let body = schema(&it["requestBody"])["properties"].clone();
        let reply = schema(&it["responses"]["200"]);
        // It goes on behind a page, is of many events, or returns a list of what it has counted.
        let list = &it["responses"]["200"]["content"]["application/json"]["schema"];
        ["after", "before", "ids", "horizon_ms", "limit"]
            .iter()
            .any(|name| parameters.iter().any(|it| it["name"] == *name) || body[*name].is_object())
            || reply["properties"]["items"].is_object()
            || (list["type"] == "array" && !waits.contains(it["operationId"].as_str().unwrap()))
    });
    let tested = scans::requests().map(|(.., operation)| operation.to_owned());
    let tested = tested.into_iter().filter(|it| !it.is_empty());
    let tested = tested.chain(OF_THE_STATE.map(str::to_owned));
    assert_eq!(steps, tested.collect(), "that take many steps");
}
