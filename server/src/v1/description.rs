//! The OpenAPI description, made of the operations.

use serde_json::{Value, json};
use utoipa::OpenApi;

use super::event::latest_due_ms;
use super::{
    audit, bulk, calls, dead, event_list, events, lease_stream, leases, nodes, problem, push_lines,
    queue_list, queues, records, replay, schedules, webhook_schema, webhooks,
};

/// What the operations do not say.
const ABOUT: &str = "Delayed jobs over HTTP. Times are in milliseconds, errors are problem details. \
    `streamLeases` and `pushEventLines` are streams: read their responses while they come.";

#[derive(OpenApi)]
#[openapi(
    info(title = "duly", description = ABOUT, license(name = "MIT OR Apache-2.0")),
    tags(
        (name = "events", description = "Push, look up, change, cancel and explain events"),
        (name = "calls", description = "Push an event and wait for the reply of its consumer"),
        (name = "leases", description = "Pull events, settle them, extend the time"),
        (name = "records", description = "How attempts and events ended"),
        (name = "queues", description = "Counts, pause, rate and forecast of a queue"),
        (name = "dead letters", description = "Events that failed for good"),
        (name = "schedules", description = "Events that recur: set, show, pause, run"),
        (name = "webhooks", description = "Queues that are delivered by POST to a URL"),
    ),
    components(schemas(problem::Problem)),
    paths(
        events::push, push_lines::push_lines, events::get, events::cancel, events::change, events::explain,
        event_list::list, bulk::change, bulk::erase, audit::list, nodes::list,
        calls::call, calls::get_reply,
        leases::lease, lease_stream::stream_leases, lease_stream::drain_stream, leases::settle, leases::extend,
        records::list, replay::replay,
        queue_list::list, queue_list::overview, queues::stats, queues::set, queues::forecast, queues::purge,
        dead::list, dead::revive, dead::drop_letters,
        schedules::list, schedules::get, schedules::set, schedules::pause, schedules::resume,
        schedules::run, schedules::remove,
        webhooks::set, webhooks::get, webhooks::remove, webhooks::list,
    )
)]
struct Description;

/// Returns the description; its bound of due times is of today.
pub(super) fn description() -> serde_json::Result<Value> {
    let mut description = serde_json::to_value(Description::openapi())?;
    description["components"]["securitySchemes"] = json!({
        "bearer": {"type": "http", "scheme": "bearer",
            "description": "A token of the namespace, made on the admin listener"},
        "token": {"type": "apiKey", "in": "header", "name": "X-Token",
            "description": "The same token, in the header of lmstfy"},
    });
    description["security"] = json!([{"bearer": []}, {"token": []}]);
    let schemas = &mut description["components"]["schemas"];
    for name in ["NewEvent", "EventChange"] {
        schemas[name]["properties"]["due_ms"]["maximum"] = json!(latest_due_ms());
    }
    webhook_schema::refine(&mut schemas["WebhookBody"]);
    // Values that exclude each other; `null` is none of them.
    let both = |a: &str, b: &str| {
        json!({"not": {"required": [a, b], "properties": {
            a: {"not": {"type": "null"}}, b: {"not": {"type": "null"}}}}})
    };
    let of_payload = json!({"oneOf": [
        {"required": ["payload"], "properties": {"payload_base64": {"type": "null"}}},
        {"required": ["payload_base64"], "properties": {"payload_base64": {"type": "string"}},
            "not": {"required": ["payload"]}},
    ]});
    schemas["NewEvent"]["allOf"] = json!([
        of_payload,
        both("delay_ms", "due_ms"),
        both("id", "idempotency_key"),
    ]);
    if let Some(forms) = schemas["Settlement"]["oneOf"].as_array_mut() {
        for form in forms {
            form["additionalProperties"] = json!(false);
        }
    }
    schemas["NewEvent"]["properties"]["headers"]["maxProperties"] = json!(24);
    schemas["NewEvent"]["properties"]["headers"]["propertyNames"] =
        json!({"minLength": 1, "maxLength": 256});
    schemas["NewEvent"]["properties"]["headers"]["additionalProperties"]["maxLength"] = json!(256);
    schemas["EventChange"]["allOf"] = json!([
        both("delay_ms", "due_ms"),
        {"anyOf": [
            {"required": ["delay_ms"], "properties": {"delay_ms": {"type": "integer"}}},
            {"required": ["due_ms"], "properties": {"due_ms": {"type": "integer"}}},
            of_payload,
        ]},
        {"not": {"required": ["payload", "payload_base64"],
            "properties": {"payload_base64": {"type": "string"}}}},
    ]);
    Ok(description)
}
