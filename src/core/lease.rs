//! What a node holds of a bucket, and for how long it may rely on it.

use crate::core::op::RequestId;
use crate::core::options::NodeOptions;
use crate::time::Mono;

/// The leases of one bucket.
///
/// A lease stands for as long as the node's heartbeat number changes often enough. Others count
/// the silence from when they *saw* a number; we count from when we *sent* it, less a margin. So we
/// stop starting handlers before anyone can take them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Deliveries that are neither settled nor lost.
    held: usize,
    /// The last fetch that was answered.
    answered: RequestId,
    /// Until when handlers may start.
    fresh_until: Mono,
    /// When something was sent last that was answered, whatever the answer.
    heard: Mono,
    /// When the next heartbeat is due; meaningful while something is held.
    next: Mono,
    in_flight: bool,
}

impl Leases {
    /// A fetch or heartbeat that was sent then was answered: until when handlers may start.
    pub(crate) fn renew(&mut self, sent: Mono, options: &NodeOptions) -> Mono {
        self.fresh_until = self
            .fresh_until
            .max(sent + options.silence - options.margin);
        self.fresh_until
    }

    /// Up to which fetch leases have not been fresh all the time, if so.
    ///
    /// They may have been given to others since. A later answer does not bring them back, even if
    /// it speaks well of what was fetched meanwhile.
    pub(crate) fn lapsed(&self, now: Mono) -> Option<RequestId> {
        (self.held > 0 && now >= self.fresh_until).then_some(self.answered)
    }

    /// A fetch that was sent then gave so many.
    pub(crate) fn fetched(&mut self, request: RequestId, many: usize, sent: Mono, o: &NodeOptions) {
        self.answered = self.answered.max(request);
        if self.held == 0 {
            self.next = sent + o.heartbeat;
        }
        self.heard = self.heard.max(sent);
        self.held += many;
    }

    /// So many were settled, or refused as lost.
    pub(crate) fn settled(&mut self, many: usize) {
        self.held = self.held.saturating_sub(many);
    }

    /// When the next heartbeat has to be sent.
    pub(crate) fn wakes(&self) -> Mono {
        if self.held == 0 || self.in_flight {
            Mono::MAX
        } else {
            self.next
        }
    }

    /// A heartbeat is sent now; what it can speak of are the fetches answered so far.
    pub(crate) fn beat(&mut self, now: Mono, options: &NodeOptions) -> RequestId {
        self.in_flight = true;
        self.next = now + options.heartbeat;
        self.answered
    }

    /// A heartbeat that was sent then was answered.
    pub(crate) fn beaten(&mut self, sent: Mono) {
        self.in_flight = false;
        self.heard = self.heard.max(sent);
    }

    /// The answer to a heartbeat is lost: the next one follows soon, and later not so soon any more.
    pub(crate) fn unanswered(&mut self, now: Mono, options: &NodeOptions) {
        self.in_flight = false;
        let pause = match now < self.heard + options.silence * 3 {
            true => options.heartbeat / 4,
            false => options.silence,
        };
        self.next = now + pause;
    }

    /// Whether the store has answered lately, as far as there is something to keep. What could not be
    /// kept for long was taken by others meanwhile, or cannot be reached by anybody.
    pub(crate) fn is_heard(&self, now: Mono, options: &NodeOptions) -> bool {
        let (lately, taken) = (options.silence - options.margin, options.silence * 3);
        self.held == 0 || now < self.heard + lately || now >= self.heard + taken
    }
}
