//! The audit: who changed what, when, and from where.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::reply;
use crate::lmstfy::ApiError;
use crate::lmstfy::params::{Params, number};
use crate::state::App;

/// The most lines of a page.
const LIMIT_MAX: u32 = 1_000;
/// The lines of a page, unless more or fewer are asked for.
const LIMIT: u32 = 100;

/// Whether a text is the place of a line: digits, and a `-` where the state is in a Redis.
fn is_place(text: &str) -> bool {
    !text.is_empty() && text.len() <= 41 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

/// `GET /audit`: the newest lines first; `before` is the `next` of the page before.
pub(super) async fn list(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let params = Params::new(query.as_deref());
    let limit = params.get("limit").map_or(Some(LIMIT), number);
    let Some(limit) = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit)) else {
        return ApiError::bad("invalid limit: it must be 1 to 1000").into_response();
    };
    let before = params.get("before");
    if before.is_some_and(|before| !is_place(before)) {
        return ApiError::bad("invalid before: pass the next of the page before").into_response();
    }
    let lines = match app.shared.audit_lines(before, limit).await {
        Ok(lines) => lines,
        Err(error) => return ApiError::from(error).into_response(),
    };
    let is_full = lines.len() == usize::try_from(limit).unwrap_or(usize::MAX);
    let next = lines.last().map(|(place, _)| place.clone());
    let items = lines
        .into_iter()
        .filter_map(|(_, line)| serde_json::from_str::<Value>(&line).ok());
    let items: Vec<Value> = items.collect();
    let page = json!({"items": items, "next": next.filter(|_| is_full)});
    reply::json(StatusCode::OK, &page)
}
