//! The frame of each page: its title, navigation and user.

use crate::access::User;
use crate::app::App;
use crate::event_rows::EventRow;
use crate::guard::Visit;

/// What the frame of each page shows.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) base: String,
    pub(crate) title: String,
    /// The item of the navigation.
    pub(crate) page: &'static str,
    pub(crate) user: User,
    pub(crate) csrf: String,
    /// What an action has done.
    pub(crate) done: Option<String>,
    pub(crate) store: String,
    pub(crate) stores: Vec<(String, String)>,
}

impl Frame {
    /// The path of the page that another store has as well: where a visitor goes who chooses one.
    pub(crate) fn place(&self) -> &'static str {
        match self.page {
            "find" => "/find",
            "audit" => "/audit",
            "history" => "/history",
            "queues" => "/queues",
            "dead" => "/dead",
            "records" => "/records",
            "schedules" => "/schedules",
            "nodes" => "/nodes",
            _ => "/",
        }
    }

    pub(crate) fn is_at(&self, page: &str) -> &'static str {
        if self.page == page { "page" } else { "false" }
    }

    pub(crate) fn is_store(&self, name: &str) -> bool {
        self.store == name
    }

    pub(crate) fn operates(&self) -> bool {
        self.user.may(crate::Role::Operate)
    }

    /// Whether some of these events can be chosen for an action.
    pub(crate) fn chooses(&self, rows: &[EventRow]) -> bool {
        self.operates() && rows.iter().any(|row| row.waits)
    }

    pub(crate) fn runs_schedules(&self) -> bool {
        self.user.runs_schedules()
    }

    pub(crate) fn administers(&self) -> bool {
        self.user.may(crate::Role::Admin)
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.user.name == "anonymous"
    }
}

impl App {
    pub(crate) fn frame(&self, visit: &Visit, page: &'static str, title: &str) -> Frame {
        Frame {
            base: self.base.clone(),
            title: title.to_owned(),
            page,
            user: visit.user.clone(),
            csrf: visit.csrf.clone(),
            done: visit.done.clone(),
            store: self.name.clone(),
            stores: self.stores.clone(),
        }
    }
}
