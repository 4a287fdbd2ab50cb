//! The signals by which the process is told what to do.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal tells the process to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// By TERM or INT.
    Stop,
    /// By HUP.
    Reload,
}

/// The signals that would end the process, and do not.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// By which the original reopens its log files.
    reopen: Signal,
    others: [Signal; 2],
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            others: [
                signal(SignalKind::user_defined2())?,
                signal(SignalKind::alarm())?,
            ],
        })
    }

    /// Waits until the process is told something.
    pub(crate) async fn next(&mut self) -> SignalAction {
        let [second, alarm] = &mut self.others;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SignalAction::Stop,
                _ = self.interrupt.recv() => return SignalAction::Stop,
                _ = self.hangup.recv() => return SignalAction::Reload,
                _ = self.reopen.recv() => {
                    tracing::info!("the log is standard output; nothing to reopen");
                }
                _ = second.recv() => tracing::info!("signal USR2 ignored"),
                _ = alarm.recv() => tracing::info!("signal ALRM ignored"),
            }
        }
    }
}
