//! Live updates: streams that say when the picture is new.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::access::Role;
use crate::app::App;
use crate::error::PageError;
use crate::grant::Extent;
use crate::guard::Visit;

/// How long a stream lasts; a browser then begins another, and proves again who it is.
const LASTS: Duration = Duration::from_secs(600);

/// Sends the number of each round.
pub(crate) async fn stream(State(app): State<Arc<App>>, visit: Visit) -> Response {
    let Some(place) = app.streams.take(&visit.user) else {
        let text = "too many pages are kept current; this one is current when it is loaded";
        return PageError::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let rounds = app.sampler.rounds();
    let ends = tokio::time::Instant::now() + LASTS;
    let grant = visit.grant(&app, Role::View, Extent::OpenPage);
    let begin = Some((Arc::clone(&app), rounds, place, grant));
    let events = stream::unfold(begin, move |going_on| async move {
        let (app, mut rounds, place, grant) = going_on?;
        app.sampler.look();
        let closing = app.closing.clone().wait();
        tokio::select! {
            changed = tokio::time::timeout_at(ends, rounds.changed()) => changed.ok()?.ok()?,
            () = closing => return None,
            ended = grant.ended() => {
                let event = Event::default().event("ended").data(ended.to_string());
                return Some((Ok::<_, Infallible>(event), None));
            }
        }
        let round = *rounds.borrow_and_update();
        let event = Event::default().event("round").data(round.to_string());
        Some((Ok(event), Some((app, rounds, place, grant))))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
        .into_response()
}
