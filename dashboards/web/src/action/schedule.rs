//! Actions on schedules.

use duly::ErrorKind;
use duly::admin::Schedule;

use super::kind::Action;
use crate::app::App;
use crate::error::{PageError, Result};
use crate::guard::Visit;
use crate::pages::schedule::schedule_of;
use crate::text::Fields;

/// Returns the schedule of a form.
pub(super) async fn found(app: &App, visit: &Visit, fields: &Fields) -> Result<Schedule> {
    schedule_of(app, visit, fields.get("schedule").unwrap_or_default()).await
}

/// Does an action; returns what was done, and to what.
pub(super) async fn perform(
    app: &App,
    visit: &Visit,
    action: Action,
    fields: &Fields,
) -> Result<(String, String)> {
    let Schedule { name, options, .. } = found(app, visit, fields).await?;
    // Somebody may move it to another queue meanwhile.
    let user = visit.user.clone();
    let schedules = app.bus.schedules().only(move |queue| user.sees(queue));
    let done = match action {
        Action::PauseSchedule => schedules
            .pause(&name)
            .await
            .map(|()| "is paused".to_owned()),
        Action::ResumeSchedule => schedules.resume(&name).await.map(|()| "goes on".to_owned()),
        Action::RemoveSchedule => schedules
            .remove(&name)
            .await
            .map(|_| "is removed".to_owned()),
        _ => {
            let id = schedules.run_now(&name).await;
            id.map(|id| format!("has pushed event {id} to {}", options.queue()))
        }
    };
    match done {
        Ok(done) => Ok((format!("{name} {done}."), format!("schedules/{name}"))),
        // It was removed meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown(&name)),
        Err(error) => Err(error.into()),
    }
}

fn unknown(name: &str) -> PageError {
    PageError::not_found(format!("there is no schedule {name}"))
}
