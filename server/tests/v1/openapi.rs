//! The description in the repository, `server/openapi.json`: current, and whole.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::world::{Place, World};

const FILE: &str = "openapi.json";
/// Set to `overwrite`, the file is written anew.
const VARIABLE: &str = "DULY_OPENAPI";

/// Returns what a server describes, without what is of the day.
async fn described() -> Value {
    let world = World::start(Place::Embedded).await;
    let mut description = world.get("/v1/openapi.json").await.is(200);
    for name in ["NewEvent", "EventChange"] {
        let schema = &mut description["components"]["schemas"][name];
        let due = schema["properties"]["due_ms"].as_object_mut().unwrap();
        assert!(due.remove("maximum").is_some(), "{name}");
    }
    description
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_description_in_the_repository_is_that_of_the_server() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = serde_json::to_string_pretty(&described().await).unwrap() + "\n";
    if std::env::var(VARIABLE).is_ok_and(|value| value == "overwrite") {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "{FILE} is outdated: run this test with {VARIABLE}=overwrite, and check what has changed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_has_an_id_of_its_own_and_each_reference_a_schema() {
    let description = described().await;
    let mut ids = BTreeSet::new();
    for path in description["paths"].as_object().unwrap().values() {
        for operation in path.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is there twice");
            // A generator takes one content of a body or a response, so there is no second one.
            let body = operation["requestBody"]["content"].as_object();
            assert!(body.is_none_or(|content| content.len() == 1), "{id}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let content = response["content"].as_object();
                assert!(content.is_none_or(|it| it.len() == 1), "{id}: {status}");
            }
        }
    }
    assert!(
        ids.contains("pushEventLines") && ids.contains("streamLeases"),
        "{ids:?}"
    );
    let text = description.to_string();
    let references = text.split("\"$ref\":\"").skip(1);
    for reference in references.filter_map(|rest| rest.split('"').next()) {
        let pointer = reference
            .strip_prefix('#')
            .expect("a reference to this file");
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
}
