//! What works are called, and what they do in a line.

use super::Work;
use crate::plan::Size;

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Bulk => "bulk",
            Self::Drain => "drain",
            Self::Single => "single",
            Self::Own => "own",
            Self::Own5 => "own-5000",
            Self::Own1 => "own-1000",
            Self::Mixed => "mixed",
            Self::Failing => "failing",
            Self::Cancelled => "cancelled",
            Self::Late => "late",
            Self::Fast => "fast",
            Self::Shipped => "shipped",
            Self::Herd => "herd",
            Self::Ahead => "ahead",
            Self::Idle => "idle",
            Self::Resting => "resting",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.name() == name)
    }

    /// What it is, for the title above its lines.
    pub fn title(self, size: Size) -> String {
        let (events, herd, seconds) = (size.events, size.herd, size.span.as_secs());
        match self {
            Self::Push => format!("push {events} events due in an hour, one by one, 64 in flight"),
            Self::Bulk => format!("push {events} events due in an hour, many a call"),
            Self::Drain => {
                format!("push {events} events due at once, and handle them, 64 at a time")
            }
            Self::Single => {
                format!(
                    "push {events} events due at once, one by one, and handle them, 64 at a time"
                )
            }
            Self::Own => format!("push {events} events, each due at its own time, and handle them"),
            Self::Own5 => format!("the same for {seconds} s, 5000 of them due in each second"),
            Self::Own1 => format!("the same for {seconds} s, 1000 of them due in each second"),
            Self::Mixed => {
                format!("push {events} events, plain, keyed, unique, expiring, and handle them")
            }
            Self::Failing => format!("push {events} events of which one in 8 fails once"),
            Self::Cancelled => format!("push {events} events for later, cancel every second one"),
            Self::Late => format!("lateness: 1000 a second for {seconds} s, each due after 2 s"),
            Self::Fast => format!("lateness: 20000 a second for {seconds} s, each due after 2 s"),
            Self::Shipped => {
                format!("lateness: 1000 a second for {seconds} s, settings as shipped")
            }
            Self::Herd => format!("{herd} events due at one instant, nothing read ahead"),
            Self::Ahead => format!("{herd} events due at one instant, read ahead"),
            Self::Idle => format!("idle: 10 queues, nothing due before tomorrow, {seconds} s"),
            Self::Resting => format!("idle, {seconds} s, settings as shipped"),
        }
    }
}
