//! Responses as JSON, escaped as lmstfy's encoder does, for text that ends up in a page of HTML.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

/// The content type of JSON.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// A response with a body of JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    text(status, serde_json::to_string(value))
}

/// A response with a body of JSON, indented by four.
pub(crate) fn json_indented(status: StatusCode, value: &impl Serialize) -> Response {
    let mut bytes = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, indent);
    let written = value.serialize(&mut serializer);
    let text_of = written.map(|()| String::from_utf8_lossy(&bytes).into_owned());
    text(status, text_of)
}

/// Returns a value as JSON.
pub(crate) fn json_text(value: &impl Serialize) -> duly::Result<String> {
    let text = serde_json::to_string(value);
    let text = text.map_err(|error| {
        duly::Error::new(duly::ErrorKind::Invalid, "response is not encodable").because(error)
    });
    text.map(escaped)
}

fn text(status: StatusCode, json: serde_json::Result<String>) -> Response {
    match json {
        Ok(json) => with_type(status, JSON, escaped(json)),
        Err(error) => {
            tracing::error!(%error, "response is not encodable");
            with_type(
                StatusCode::INTERNAL_SERVER_ERROR,
                JSON,
                r#"{"error":"internal error"}"#.to_owned(),
            )
        }
    }
}

/// A response with a body of a content type.
pub(crate) fn with_type(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Escapes `<`, `>`, `&` and two line separators; in JSON they occur in strings only.
fn escaped(json: String) -> String {
    let is_special = |c: char| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    if !json.contains(is_special) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_html_knows_is_escaped() {
        assert_eq!(
            escaped(r#"{"a":"<b>&"}"#.to_owned()),
            r#"{"a":"\u003cb\u003e\u0026"}"#
        );
    }
}
