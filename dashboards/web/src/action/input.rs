//! Input of actions: reads the fields of a form, and refuses what they may not be.

use std::time::Duration;

use axum::http::StatusCode;
use duly::QueueName;
use duly::time::When;

use super::SWEEP_RATE;
use crate::app::App;
use crate::error::{PageError, Result};
use crate::questions::in_time;
use crate::text::{self, Fields};

/// Fails unless the store has the queue, so that a wrong address sets nothing.
pub(super) async fn known(app: &App, queue: &QueueName) -> Result<()> {
    match in_time(app.bus.queues()).await?.binary_search(queue) {
        Ok(_) => Ok(()),
        Err(_) => Err(PageError::not_found(format!("there is no queue {queue}"))),
    }
}

/// Fails for a queue of duly itself: what is in it is a schedule, a reply or a line of the audit, and
/// none of the events that somebody means.
pub(super) fn meant(queue: &QueueName) -> Result<()> {
    if queue.is_own() {
        let text = format!("{queue} is a queue of duly itself; its events are not changed");
        return Err(PageError::invalid(text));
    }
    Ok(())
}

/// Reads when what is rescheduled is due: at a time if there is one, or else after a delay.
pub(super) fn due(fields: &Fields) -> Result<When> {
    let at = text::instant(fields, "at").map_err(|error| error.of("at"))?;
    if let Some(at) = at {
        return Ok(When::At(at));
    }
    // An empty form is a slip, and not "now".
    let missing = || PageError::invalid("give the seconds from now, or a time").of("delay");
    let seconds = number(fields, "delay")?.ok_or_else(missing)?;
    let delay = Duration::try_from_secs_f64(seconds);
    delay
        .map(When::After)
        .map_err(|_| PageError::invalid("the delay must be 0 to 4294967295 seconds").of("delay"))
}

/// Reads the rate of a sweep.
pub(super) fn rate(fields: &Fields) -> Result<f64> {
    let rate = number(fields, "rate")?.unwrap_or(SWEEP_RATE);
    if (0.001..=1e6).contains(&rate) {
        Ok(rate)
    } else {
        let text = "the rate must be 0.001 to 1000000 in a second";
        Err(PageError::invalid(text).of("rate"))
    }
}

/// The error of a sweep for which there is no room.
pub(super) fn too_many() -> PageError {
    let text = "too many sweeps run already, yours or in all; wait until one is done, or stop one";
    PageError::new(StatusCode::TOO_MANY_REQUESTS, text)
}

/// Reads a number, which may have a fraction.
pub(super) fn number(fields: &Fields, name: &'static str) -> Result<Option<f64>> {
    let Some(text) = fields.get(name) else {
        return Ok(None);
    };
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    let wrong = || {
        PageError::invalid(format!(
            "{name} is “{}”; it must be a number",
            text::shown(text, 40)
        ))
        .of(name)
    };
    number.map(Some).ok_or_else(wrong)
}
