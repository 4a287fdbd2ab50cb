//! The form that edits the payload of a dead letter, and revives it with what was entered.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duly::dead_letters::{DeadLetter, Edited};
use duly::{EventId, QueueName};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::access::Role;
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::frame::Frame;
use crate::guard::{Form, Visit};
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::Fields;

/// Whole numbers from here on are not all exact as a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Template)]
#[template(path = "edit.html")]
struct EditPage {
    frame: Frame,
    queue: String,
    id: String,
    /// What identifies the payload that was read.
    was: String,
    text: String,
    /// Why what was entered is not accepted.
    wrong: Option<String>,
    /// The payload that it has by now, where that is another one.
    current: Option<String>,
}

/// A dead letter whose payload can be edited.
struct Editable {
    letter: DeadLetter,
    shown: String,
    was: String,
}

impl Editable {
    async fn read(app: &App, queue: &QueueName, id: EventId) -> Result<Self> {
        let letters = app.bus.dead_letters().queue(queue).ids([id]);
        let page = in_time(letters.limit(1).page()).await?;
        let letter = page.items.into_iter().next().ok_or_else(|| {
            let text = format!("event {id} of queue {queue} is no dead letter, or none any more");
            PageError::new(StatusCode::CONFLICT, text)
        })?;
        let shown = letter.payload_shown();
        if shown.starts_with("encrypted under key") {
            let text = format!("the payload is {shown}; it cannot be edited here");
            return Err(PageError::new(StatusCode::CONFLICT, text));
        }
        if serde_json::from_str::<Value>(&shown).is_err() {
            let text = "the payload is no JSON, or longer than 16 KiB; it cannot be edited here";
            return Err(PageError::new(StatusCode::CONFLICT, text));
        }
        let was = URL_SAFE_NO_PAD.encode(Sha256::digest(letter.payload.as_bytes()));
        Ok(Self { letter, shown, was })
    }
}

/// Shows the form.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    visit.needs(Role::Admin)?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let queue = name_of(&visit, fields.get("queue").unwrap_or_default())?;
    let id: EventId = fields.get("id").unwrap_or_default().parse()?;
    let found = Editable::read(&app, &queue, id).await?;
    html(&EditPage {
        frame: app.frame(&visit, "dead", "Edit a dead letter"),
        queue: queue.to_string(),
        id: id.to_string(),
        was: found.was,
        text: found.shown,
        wrong: None,
        current: None,
    })
}

/// Checks what was entered, and revives the dead letter with it; else shows the form again, with
/// what was entered.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Form { visit, fields }: Form,
) -> Result<Response> {
    visit.needs(Role::Admin)?;
    let queue = name_of(&visit, fields.get("queue").unwrap_or_default())?;
    let id: EventId = fields.get("id").unwrap_or_default().parse()?;
    let text = fields.text("payload");
    let found = Editable::read(&app, &queue, id).await?;
    let again = |status, was: String, wrong, current| -> Result<Response> {
        let page = html(&EditPage {
            frame: app.frame(&visit, "dead", "Edit a dead letter"),
            queue: queue.to_string(),
            id: id.to_string(),
            was,
            text: text.clone(),
            wrong: Some(wrong),
            current,
        })?;
        Ok((status, page).into_response())
    };
    let was = fields.text("was");
    let value = match value(&text) {
        Ok(value) => value,
        Err(wrong) => return again(StatusCode::BAD_REQUEST, was, wrong, None),
    };
    let changed = "its payload was changed meanwhile, and nothing was done; compare it with yours, \
                   and send yours again if it is right";
    if found.was != was {
        let (was, current) = (found.was, Some(found.shown));
        return again(StatusCode::CONFLICT, was, changed.to_owned(), current);
    }
    let letters = app.bus.dead_letters().queue(&queue).by(&visit.user.name);
    let edited = letters.edit_and_revive(id, &found.letter.payload, &value);
    match edited.await {
        Ok(Edited::Edited) => {}
        Ok(Edited::Conflict) => {
            let found = Editable::read(&app, &queue, id).await?;
            let (was, current) = (found.was, Some(found.shown));
            return again(StatusCode::CONFLICT, was, changed.to_owned(), current);
        }
        Ok(Edited::NotDead(duly::event::State::Expired)) => {
            let wrong =
                format!("nothing was done: event {id} has expired, and would be over at once");
            return again(StatusCode::CONFLICT, was, wrong, None);
        }
        Ok(Edited::NotDead(state)) => {
            let wrong = format!("nothing was done: event {id} is {state}, and no dead letter");
            return again(StatusCode::CONFLICT, was, wrong, None);
        }
        Ok(_) => {
            let wrong = format!("nothing was done: queue {queue} does not know event {id}");
            return again(StatusCode::CONFLICT, was, wrong, None);
        }
        Err(error) if error.kind() == duly::ErrorKind::Invalid => {
            let mut wrong = error.to_string();
            if let Some(cause) = std::error::Error::source(&error) {
                wrong += &format!(": {cause}");
            }
            return again(StatusCode::BAD_REQUEST, was, wrong, None);
        }
        Err(error) => {
            let wrong = format!("{error}; what you entered is kept here");
            return again(StatusCode::SERVICE_UNAVAILABLE, was, wrong, None);
        }
    }
    let target = format!("{queue}/{id}");
    let action = "dead letter edited and revived";
    app.audit(&visit.user, action, &target).await;
    let done = visit.done_query(&format!("{id} is ready again, with the new payload."));
    let to = format!("{}/queues/{queue}/events/{id}?{done}", app.base);
    Ok(Redirect::to(&to).into_response())
}

/// Reads what was entered; else says what is wrong and where.
fn value(text: &str) -> Result<Entered, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        if text.is_empty() {
            "nothing was entered; it must be a JSON value, such as null".to_owned()
        } else {
            format!("it is no JSON: {error}")
        }
    })?;
    let text =
        RawValue::from_string(solid(text)).map_err(|error| format!("it is no JSON: {error}"))?;
    Ok(Entered { text, value })
}

/// What was entered. JSON keeps its text, as a number that was not edited may have more digits than one
/// of this program; another codec has values.
struct Entered {
    text: Box<RawValue>,
    value: Value,
}

impl Serialize for Entered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.text.serialize(serializer);
        }
        match inexact(&self.value) {
            Some(number) => Err(S::Error::custom(format!(
                "the number {number} cannot be kept exactly; it must be within 64 bits, or a text"
            ))),
            None => self.value.serialize(serializer),
        }
    }
}

/// Removes the white space of JSON that means nothing.
fn solid(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        if is_string {
            is_string = *c != '"' || is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            return true;
        }
        is_string = *c == '"';
        !c.is_ascii_whitespace()
    };
    text.chars().filter(is_kept).collect()
}

/// Returns a whole number that is too large to be exact.
fn inexact(value: &Value) -> Option<&serde_json::Number> {
    match value {
        Value::Number(number) if number.is_f64() => {
            let is_large = |number: f64| number.fract() == 0.0 && number.abs() >= EXACT;
            number.as_f64().is_some_and(is_large).then_some(number)
        }
        Value::Array(items) => items.iter().find_map(inexact),
        Value::Object(members) => members.values().find_map(inexact),
        _ => None,
    }
}
