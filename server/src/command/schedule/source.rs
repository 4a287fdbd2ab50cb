//! The trait of what commands of schedules work on, implemented for a store and for a server.

use duly_server::api::{Run, SchedulePage, ScheduleView};
use duly_server::schedules::{self, NewSchedule, PAGE_MAX};
use reqwest::Method;
use serde_json::json;
use serde_json::value::RawValue;

use crate::command::error::{CommandError, Failure, Result, no_schedule};
use crate::command::remote::Server;
use crate::command::source::Source;
use crate::command::store::Store;

/// What is done with a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScheduleAction {
    Pause,
    Resume,
    Remove,
}

/// The schedules of a store or a server, under the names that the library has.
pub(crate) trait ScheduleSource {
    /// Returns the first `limit` schedules by name, and whether there are more. `like`: those of
    /// its namespace, where there are namespaces.
    async fn schedules(
        &self,
        like: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<ScheduleView>, bool)>;
    async fn schedule(&self, name: &str) -> Result<ScheduleView>;
    async fn set_schedule(&self, name: &str, schedule: NewSchedule) -> Result<ScheduleView>;
    async fn act_on_schedule(&self, name: &str, action: ScheduleAction) -> Result<()>;
    async fn run_schedule(&self, name: &str) -> Result<Run>;
}

impl ScheduleSource for Store {
    async fn schedules(&self, _: Option<&str>, limit: usize) -> Result<(Vec<ScheduleView>, bool)> {
        let (mut views, mut after) = (Vec::new(), None);
        loop {
            let left = limit.saturating_sub(views.len()).min(PAGE_MAX);
            if left == 0 {
                return Ok((views, true));
            }
            let page = schedules::page(self.bus(), None, |_| true, after.as_deref(), left).await?;
            let items = page.items.iter();
            views.extend(items.map(|it| ScheduleView::new(&it.name, it.options.queue(), it)));
            after = page.next;
            if after.is_none() {
                return Ok((views, false));
            }
        }
    }

    async fn schedule(&self, name: &str) -> Result<ScheduleView> {
        let found = self.bus().schedules().get(name).await?;
        let found = found.ok_or_else(|| no_schedule(name, None))?;
        Ok(ScheduleView::new(name, found.options.queue(), &found))
    }

    async fn set_schedule(&self, name: &str, schedule: NewSchedule) -> Result<ScheduleView> {
        let options = schedule.options()?;
        self.bus().schedules().set(name, options).await?;
        self.audit_schedule("schedule set", name).await;
        self.schedule(name).await
    }

    async fn act_on_schedule(&self, name: &str, action: ScheduleAction) -> Result<()> {
        let schedules = self.bus().schedules();
        let done = match action {
            ScheduleAction::Pause => schedules.pause(name).await,
            ScheduleAction::Resume => schedules.resume(name).await,
            ScheduleAction::Remove => match schedules.remove(name).await {
                Ok(true) => Ok(()),
                Ok(false) => return Err(no_schedule(name, None)),
                Err(error) => Err(error),
            },
        };
        done.map_err(|error| of_name(name, error.into()))?;
        let action = match action {
            ScheduleAction::Pause => "schedule paused",
            ScheduleAction::Resume => "schedule resumed",
            ScheduleAction::Remove => "schedule removed",
        };
        self.audit_schedule(action, name).await;
        Ok(())
    }

    async fn run_schedule(&self, name: &str) -> Result<Run> {
        let queue = self.schedule(name).await?.queue;
        let id = self.bus().schedules().run_now(name).await;
        let id = id.map_err(|error| of_name(name, error.into()))?;
        self.audit_schedule("schedule run", name).await;
        Ok(Run {
            id: id.to_string(),
            queue,
        })
    }
}

impl Store {
    async fn audit_schedule(&self, action: &str, name: &str) {
        let target = format!("schedules/{name}");
        self.audit_done(action, &target).await;
    }
}

/// Names the schedule that is not there in the same words everywhere.
fn of_name(name: &str, error: CommandError) -> CommandError {
    match error.failure {
        Failure::NotFound => no_schedule(name, None),
        _ => error,
    }
}

/// Splits the name of a schedule: `nightly` of the namespace `shop` is `shop.nightly`.
fn split(name: &str) -> Result<(&str, &str)> {
    name.split_once('.').ok_or_else(|| {
        CommandError::usage(format!(
            "`{name}` has no namespace; with --server a schedule is named `namespace.schedule`, \
             such as shop.nightly"
        ))
    })
}

fn named(namespace: &str, view: ScheduleView) -> ScheduleView {
    ScheduleView {
        name: format!("{namespace}.{}", view.name),
        queue: format!("{namespace}.{}", view.queue),
        ..view
    }
}

impl ScheduleSource for Server {
    async fn schedules(
        &self,
        like: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<ScheduleView>, bool)> {
        let of_name = like.and_then(|name| Some(name.split_once('.')?.0));
        let namespace = of_name.or(self.namespace.as_deref()).ok_or_else(|| {
            let text = "with --server the schedules of a namespace are listed; add --namespace";
            CommandError::usage(text)
        })?;
        let (mut views, mut after): (Vec<ScheduleView>, Option<String>) = (Vec::new(), None);
        loop {
            let left = limit.saturating_sub(views.len()).min(PAGE_MAX);
            if left == 0 {
                return Ok((views, true));
            }
            let mut query = vec![("limit", left.to_string())];
            query.extend(after.map(|after| ("after", after)));
            let path = ["v1", namespace, "schedules"];
            let page = self.http.send_for(Method::GET, &path, &query, None);
            let page: SchedulePage = page.await?;
            views.extend(page.items.into_iter().map(|view| named(namespace, view)));
            after = page.next;
            if after.is_none() {
                return Ok((views, false));
            }
        }
    }

    async fn schedule(&self, name: &str) -> Result<ScheduleView> {
        let (namespace, own) = split(name)?;
        let path = ["v1", namespace, "schedules", own];
        let view = self.http.send_for(Method::GET, &path, &[], None).await;
        view.map(|view| named(namespace, view))
            .map_err(|error| of_name(name, error))
    }

    async fn set_schedule(&self, name: &str, schedule: NewSchedule) -> Result<ScheduleView> {
        let (namespace, own) = split(name)?;
        let queue = schedule.queue.strip_prefix(namespace);
        let queue = queue.and_then(|queue| queue.strip_prefix('.'));
        let queue = queue.ok_or_else(|| {
            CommandError::usage(format!(
                "queue `{}` is not of the namespace of the schedule; with --server it is named \
                 {namespace}.queue",
                schedule.queue
            ))
        })?;
        // The text of the payload, as a number may have more digits than a value keeps.
        let payload = schedule.payload.map(RawValue::from_string).transpose();
        let payload = payload.map_err(|error| {
            CommandError::usage(format!("the payload of the schedule is no JSON: {error}"))
        })?;
        let mut body = json!({
            "queue": queue,
            "when": schedule.when,
            "missed": schedule.missed,
            "overlap": schedule.overlap,
            "jitter_ms": schedule.jitter_ms,
            "exclude": schedule.exclude,
            "only": schedule.only,
        })
        .to_string();
        if let Some(payload) = payload {
            body.pop(); // the brace
            body += &format!(",\"payload\":{}}}", payload.get());
        }
        let path = ["v1", namespace, "schedules", own];
        let view = self.http.send_for(Method::PUT, &path, &[], Some(body));
        Ok(named(namespace, view.await?))
    }

    async fn act_on_schedule(&self, name: &str, action: ScheduleAction) -> Result<()> {
        let (namespace, own) = split(name)?;
        let path = ["v1", namespace, "schedules", own];
        let with = |action: &'static str| [&path[..], &[action]].concat();
        let (method, path) = match action {
            ScheduleAction::Pause => (Method::POST, with("pause")),
            ScheduleAction::Resume => (Method::POST, with("resume")),
            ScheduleAction::Remove => (Method::DELETE, path.to_vec()),
        };
        let done = self.http.send(method, &path, &[], None).await;
        done.map(drop).map_err(|error| of_name(name, error))
    }

    async fn run_schedule(&self, name: &str) -> Result<Run> {
        let (namespace, own) = split(name)?;
        let path = ["v1", namespace, "schedules", own, "run"];
        let pushed = self.http.send_for(Method::POST, &path, &[], None).await;
        let Run { id, queue } = pushed.map_err(|error| of_name(name, error))?;
        let queue = format!("{namespace}.{queue}");
        Ok(Run { id, queue })
    }
}
