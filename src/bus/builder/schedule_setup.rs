//! The schedule options of a builder.

use std::collections::{BTreeMap, BTreeSet};

use crate::bus::schedules::check_name;
use crate::bus::schedules::declare::Declared;
use crate::config::{ScheduleChoices, Settings};
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::handler::AnnotatedSchedule;
use crate::panics;
use crate::schedule::ScheduleOptions;

/// The most schedules of a namespace when a builder does not say: their links take about 100 MB.
pub(super) const SCHEDULES_MAX: usize = 100_000;

/// How many calendars a line of the log names.
const NAMED_MAX: usize = 8;

/// What a builder says of schedules.
#[derive(Debug, Default)]
pub(super) struct ScheduleSetup {
    pub(super) declared: BTreeMap<String, ScheduleOptions>,
    pub(super) deploy: Option<u64>,
    pub(super) runs: Option<bool>,
    pub(super) max: Option<usize>,
}

impl ScheduleSetup {
    /// Returns what the program declares, and whether it carries schedules out. One that neither does
    /// nor has handlers declares only what its builder says.
    pub(super) fn take(
        &mut self,
        settings: &Settings,
        annotated: &[(QueueName, AnnotatedSchedule)],
        has_handlers: bool,
    ) -> Result<(Declared, bool)> {
        let runs = self.runs.unwrap_or(has_handlers);
        let wrong = |name: &str, error: Error| Error::invalid(format!("schedule {name}: {error}"));
        let declares_settings = has_handlers || runs;
        let mut unnamed: BTreeSet<&str> = settings.calendars.keys().map(String::as_str).collect();
        let mut schedules = BTreeMap::new();
        for (queue, of_handler) in annotated {
            let choices = ScheduleChoices::annotated(queue, of_handler);
            if let Ok(choices) = &choices {
                unnamed.retain(|name| !choices.names_calendar(name));
            }
            let options = choices.and_then(|choices| choices.options(&settings.calendars));
            let options = options.map_err(|error| wrong(queue, error))?;
            schedules.insert(queue.to_string(), options);
        }
        for (name, choices) in settings.schedules.iter().filter(|_| declares_settings) {
            unnamed.retain(|name| !choices.names_calendar(name));
            let options = choices.options(&settings.calendars);
            let options = options.map_err(|error| wrong(name, error))?;
            schedules.insert(name.to_string(), options);
        }
        if declares_settings && !unnamed.is_empty() {
            let many = unnamed.len();
            let some: Vec<_> = unnamed.into_iter().take(NAMED_MAX).collect();
            let calendars = some.join(", ");
            panics::reported(|| {
                tracing::warn!(
                    calendars,
                    many,
                    "settings for calendars that no schedule names"
                );
            });
        }
        schedules.append(&mut self.declared);
        for (name, options) in &schedules {
            check_name(name)?;
            options.check().map_err(|error| wrong(name, error))?;
        }
        let declared = Declared {
            schedules,
            deploy: self.deploy.or(settings.deploy).unwrap_or(0),
        };
        Ok((declared, runs))
    }
}
