//! A random step as an operation on what there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::event::Payload;
use duly::records::NodeId;
use duly::store::operation::{
    DeadLetterEdit, Fetch, Holding, PeekBy, RequestId, Rewriting, Settlement, StoreOp,
};
use duly_conformance::store_contract::shapes::Shape;
use proptest::sample::Index;

use super::Machine;
use crate::store_model::step::Step;

impl Machine {
    /// The operation that a step is now; none where it only moves the clock.
    pub(super) fn resolve(&mut self, step: &Step) -> Option<StoreOp> {
        Some(match step {
            Step::Advance { us } => {
                self.wall_us += us;
                self.mono_us += us;
                return None;
            }
            Step::SetBack { ms } => {
                self.shows(self.wall_us - ms * 1_000);
                return None;
            }
            Step::Glitch { us } => {
                let right_us = self.wall_us.saturating_add_signed(-self.glitch_us);
                let before_us = self.wall_us;
                self.shows(right_us.saturating_add_signed(*us));
                self.glitch_us += self.wall_us.cast_signed() - before_us.cast_signed();
                return None;
            }
            Step::Reopen => {
                self.model.reopen(self.wall_us);
                self.seen.clear();
                self.opened_us = Some((self.wall_us, self.mono_us));
                return None;
            }
            Step::PushPlain { count, delay_ms } => {
                let events = (0..*count).map(|_| self.plain(*delay_ms));
                StoreOp::Push(events.collect())
            }
            Step::PushShape(of, count) => {
                let all = Shape::all();
                StoreOp::Push(self.shaped(all[of.index(all.len())], *count))
            }
            Step::Push(drafts) => {
                StoreOp::Push(drafts.iter().map(|draft| self.draft(draft)).collect())
            }
            Step::PushAgain(of, same) => {
                let mut new = self.pushed.get(of.index(self.pushed.len().max(1)))?.clone();
                if !same {
                    Arc::make_mut(&mut new.envelope).payload = Payload::from(b"1".as_slice());
                }
                StoreOp::Push(vec![new])
            }
            Step::MoveDue(limit) => StoreOp::MoveDue {
                limit: *limit,
                calls: true,
            },
            Step::Fetch {
                node,
                back,
                limit,
                ahead_ms,
                ahead_limit,
                hold_ms,
                starts,
            } => {
                let last = &mut self.requests[usize::try_from(*node).expect("small")];
                if *back == 0 {
                    *last += 1;
                }
                StoreOp::Fetch(Fetch {
                    node: NodeId(*node + 1),
                    request: last.saturating_sub(back.saturating_sub(1)).max(1),
                    limit: *limit,
                    ahead: Duration::from_millis(*ahead_ms),
                    ahead_limit: *ahead_limit,
                    hold: hold_ms.map(Duration::from_millis),
                    starts: *starts,
                })
            }
            Step::Settle(ends, swap, mark) => {
                let recent = self.leases.len().saturating_sub(8);
                let recent = &self.leases[recent..];
                let pick = |of: &Index| recent.get(of.index(recent.len().max(1)));
                let (node, ..) = *pick(&ends[0].0)?;
                let settlements = ends.iter().filter_map(|(of, verdict)| {
                    let (_, id, request) = *pick(of)?;
                    Some(Settlement {
                        id,
                        request,
                        verdict: verdict.clone(),
                        started_us: self.wall_us,
                        fetched_us: self.wall_us - 7,
                    })
                });
                let started = mark.of(&self.requests, node);
                let node = if *swap && ends.len() == 1 {
                    NodeId(9)
                } else {
                    node
                };
                StoreOp::Settle {
                    node,
                    settlements: settlements.collect(),
                    started,
                }
            }
            Step::Heartbeat(node, mark) => StoreOp::Heartbeat {
                node: NodeId(node + 1),
                holds: Holding::default(),
                started: mark.of(&self.requests, NodeId(node + 1)),
            },
            Step::Reconcile(node, of, back, limit, mark) => {
                let node = NodeId(node + 1);
                let leases = self.leases.iter().filter(|lease| lease.0 == node);
                let leases: Vec<_> = leases.collect();
                let picked = of
                    .iter()
                    .filter_map(|of| leases.get(of.index(leases.len().max(1))));
                let mut held = BTreeMap::<RequestId, Vec<EventId>>::new();
                for (_, id, request) in picked {
                    held.entry(*request).or_default().push(*id);
                }
                let last = self.requests[usize::try_from(node.0 - 1).expect("small")];
                StoreOp::Reconcile {
                    node,
                    from: last.saturating_sub(*back),
                    through: last,
                    held: held.into_iter().collect(),
                    limit: *limit,
                    started: mark.of(&self.requests, node),
                }
            }
            Step::Extend(of, ms) => {
                let picked = of
                    .iter()
                    .filter_map(|of| self.leases.get(of.index(self.leases.len().max(1))));
                let picked: Vec<_> = picked.copied().collect();
                let (node, ..) = *picked.first()?;
                let leases = picked.into_iter().map(|(_, id, request)| (id, request));
                StoreOp::Extend {
                    node,
                    leases: leases.collect(),
                    hold: Duration::from_millis(*ms),
                }
            }
            Step::Reap(of, limit) => {
                let recent = &self.seen[self.seen.len().saturating_sub(5)..];
                let silent = of
                    .as_ref()
                    .and_then(|of| recent.get(of.index(recent.len().max(1))));
                StoreOp::Reap {
                    silent: silent.copied().into_iter().collect(),
                    limit: *limit,
                }
            }
            Step::ReapAll => StoreOp::Reap {
                silent: self.model.holders(),
                limit: 100,
            },
            Step::Cancel(of) => StoreOp::Cancel { id: self.id(of) },
            Step::Reschedule(of, when) => StoreOp::Reschedule {
                id: self.id(of),
                when: *when,
            },
            Step::Update(of, payload) => StoreOp::Update {
                id: self.id(of),
                payload: Payload::from(payload.to_string().into_bytes()),
                by: (*payload == 0).then(|| "ops".to_owned()),
                dead_only: *payload == 2,
            },
            Step::Rewrite(of, payload) => {
                let id = self.id(of);
                let waits = self
                    .pushed
                    .iter()
                    .rev()
                    .find(|event| event.envelope.id == id);
                StoreOp::Rewrite(vec![Rewriting {
                    id,
                    was: waits.map_or(0, |event| event.envelope.fingerprint()),
                    payload: Payload::from(payload.to_string().into_bytes()),
                }])
            }
            Step::Get(of) => StoreOp::Get { id: self.id(of) },
            Step::Peek(limit) => StoreOp::Peek {
                by: PeekBy::All,
                from: None,
                limit: *limit,
            },
            Step::Find(key, unique, limit) => StoreOp::Peek {
                by: match unique {
                    true => PeekBy::Unique(key.to_string()),
                    false => PeekBy::Key(format!("order:{key}")),
                },
                from: None,
                limit: *limit,
            },
            Step::ReadDead(after, limit) => StoreOp::ReadDead {
                after: after.as_ref().map(|after| self.id(after)),
                limit: *limit,
            },
            Step::Revive(of) => StoreOp::Revive {
                ids: self.ids(of),
                by: (of.len() % 2 == 1).then(|| "ops".to_owned()),
            },
            Step::EditAndRevive(of, payload) => {
                let id = self.id(of);
                let read = self.model.payload_of(id);
                StoreOp::EditAndRevive(DeadLetterEdit {
                    id,
                    was: read.map_or(0, |fingerprint| {
                        fingerprint.wrapping_add(u64::from(*payload == 2))
                    }),
                    payload: Payload::from(payload.to_string().into_bytes()),
                    by: (*payload == 0).then(|| "ops".to_owned()),
                })
            }
            Step::Drop(of) => StoreOp::Drop {
                ids: self.ids(of),
                by: (of.len() % 2 == 1).then(|| "ops".to_owned()),
            },
            Step::Stats => StoreOp::Stats,
            Step::Forecast(spans) => StoreOp::Forecast {
                within: spans.iter().map(|ms| Duration::from_millis(*ms)).collect(),
            },
        })
    }
}
