use super::{edit, test};
use crate::mutant::{Mutant, Promise::Served};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "server-shares-without-bound",
        breaks: Served,
        bug: "a token has as much of what tokens share as there is",
        edits: &[edit(
            "server/src/shares.rs",
            "if !self.evict(table, owner, Evicted::OfToken)? {",
            "if true {",
        )],
        caught_by: test("server", "names_that_one_polls_keep_no_other_from_polling"),
        masked_by: None,
    },
    Mutant {
        name: "server-lines-not-evicted",
        breaks: Served,
        bug: "an idle push of lines goes on although others need its room",
        edits: &[edit(
            "server/src/v1/push_lines.rs",
            "why = self.room.evicted() => return self.ended(Problem::evicted(why, WHAT)),",
            "why = self.room.evicted(), if self.is_over => return self.ended(Problem::evicted(why, WHAT)),",
        )],
        caught_by: test(
            "server",
            "idle_pushes_of_lines_keep_no_other_from_pushing_lines",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-lease-without-bytes",
        breaks: Served,
        bug: "a lease has as many events as there are, whatever their size",
        edits: &[edit(
            "server/src/bus/mod.rs",
            ".bytes_max(LEASED_BYTES_MAX)",
            ".bytes_max(LEASED_BYTES_MAX << 20)",
        )],
        caught_by: test("server", "a_lease_has_no_more_bytes_than_a_response_may"),
        masked_by: None,
    },
    Mutant {
        name: "server-labels-of-one",
        breaks: Served,
        bug: "one namespace takes all labels of metrics",
        edits: &[edit(
            "server/src/metrics.rs",
            "if of_owner.map_or(0, HashSet::len) >= left.min(LABELS_OF_ONE_MAX) {",
            "if left == 0 || LABELS_OF_ONE_MAX == 0 {",
        )],
        caught_by: test("server", "the_worst_of_one_does_the_other_no_harm"),
        masked_by: None,
    },
    Mutant {
        name: "server-log-waits",
        breaks: Served,
        bug: "a log line waits for the reader of the output",
        edits: &[edit(
            "server/src/log/lines.rs",
            "if !fits || messages.try_send(Message::Line(line)).is_err() {",
            "if messages.send(Message::Line(line)).is_err() || (!fits && false) {",
        )],
        caught_by: test(
            "server",
            "an_output_that_nobody_reads_stops_no_request_and_no_stop",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-new-queue-waits-for-disk",
        breaks: Served,
        bug: "a push to a new queue waits for the disk of the shared state",
        edits: &[edit(
            "server/src/shared/mod.rs",
            "Place::Local(local) => Ok(local.put_later(table, key, value)),",
            "Place::Local(local) => local.put(table, key, value).await,",
        )],
        caught_by: test(
            "server",
            "a_disk_that_does_not_respond_stops_no_push_to_a_new_queue",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-stop-waits-for-heads",
        breaks: Served,
        bug: "a stop waits the whole grace for half a head",
        edits: &[edit(
            "server/src/http/listener.rs",
            "service.connections.end_idlest(usize::MAX);",
            "service.connections.end_idlest(0);",
        )],
        caught_by: test("server", "a_stop_does_not_wait_for_half_a_request"),
        masked_by: None,
    },
    Mutant {
        name: "server-stop-waits-for-bodies",
        breaks: Served,
        bug: "a stop waits the whole grace for half a body",
        edits: &[edit(
            "server/src/http/body.rs",
            "() = stopping => Err(BodyError::Stopping),",
            "() = stopping, if bytes_max == 0 => Err(BodyError::Stopping),",
        )],
        caught_by: test("server", "a_stop_does_not_wait_for_half_a_request"),
        masked_by: None,
    },
    Mutant {
        name: "server-hangup-ends",
        breaks: Served,
        bug: "HUP ends the server",
        edits: &[edit(
            "server/src/cli.rs",
            "_ = self.hangup.recv() => return SignalAction::Reload,",
            "_ = self.hangup.recv() => return SignalAction::Stop,",
        )],
        caught_by: test("server", "signals_end_the_server_only_if_they_mean_it"),
        masked_by: None,
    },
    Mutant {
        name: "server-certificate-not-followed",
        breaks: Served,
        bug: "a certificate is read again by a signal alone",
        edits: &[edit(
            "server/src/http/tls.rs",
            "if now != seen {",
            "if now != seen && false {",
        )],
        caught_by: test(
            "server",
            "a_renewed_certificate_is_served_without_a_restart",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-no-compiled-roots",
        breaks: Served,
        bug: "without certificates of the system no command works",
        edits: &[edit(
            "server/src/client.rs",
            "match *HAS_CERTIFICATES {",
            "match *HAS_CERTIFICATES || true {",
        )],
        caught_by: test(
            "server",
            "the_container_serves_makes_tokens_and_delivers_webhooks",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-idle-connections-stay",
        breaks: Served,
        bug: "idle connections keep their places from new ones",
        edits: &[edit(
            "server/src/http/connections.rs",
            "state.ended.cancel();",
            "drop(state);",
        )],
        caught_by: test(
            "server",
            "with_few_descriptors_the_idlest_connections_end_and_operators_get_in",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-error-of-any-queue",
        breaks: Served,
        bug: "the error of a call is that of any event of its id",
        edits: &[edit(
            "server/src/v1/calls.rs",
            "let records = pool.bus().records().queue(queue.name().as_str());",
            "let _ = queue;\n            let records = pool.bus().records();",
        )],
        caught_by: test("server", "an_event_of_the_same_id_is_another_one"),
        masked_by: None,
    },
    Mutant {
        name: "server-reply-unchecked",
        breaks: Served,
        bug: "a reply is handed out to a token that has ended meanwhile",
        edits: &[edit(
            "server/src/v1/calls.rs",
            "            grant.check(app).await?;\n            let reply = serde_json",
            "            let reply = serde_json",
        )],
        caught_by: test(
            "server",
            "what_waits_for_a_reply_ends_with_its_token_everywhere",
        ),
        masked_by: None,
    },
    Mutant {
        name: "server-body-unchecked",
        breaks: Served,
        bug: "a token that ends while its body arrives still publishes",
        edits: &[edit(
            "server/src/lmstfy/check.rs",
            "if let Some((token, _)) = &self.grant {",
            "if let Some((token, _)) = &self.grant\n            && token.is_empty()\n        {",
        )],
        caught_by: test("server", "a_body_that_takes_its_time_is_checked_at_its_end"),
        masked_by: None,
    },
    Mutant {
        name: "server-respawn-doubles",
        breaks: Served,
        bug: "two respawns at the same time put a job back twice",
        edits: &[edit(
            "server/src/lmstfy/dead.rs",
            "let id = job_id::after(job.id).to_string();",
            "let id = call.app.job_ids.next(queue, 0).to_string();",
        )],
        caught_by: test("server", "respawns_at_the_same_time_double_no_job"),
        masked_by: None,
    },
    Mutant {
        name: "server-records-by-any-index",
        breaks: Served,
        bug: "an empty page of records tells of those of others",
        edits: &[
            edit(
                "server/src/v1/records.rs",
                "const PAGES_MAX: u32 = 64;",
                "const PAGES_MAX: u32 = 16;",
            ),
            edit(
                "server/src/v1/records.rs",
                "            matching_page(records, &matching",
                "            let records = match &matching.key {\n                Some(key) => records.key(key.as_str()),\n                None => records,\n            };\n            matching_page(records, &matching",
            ),
        ],
        caught_by: test("server", "a_tenant_learns_nothing_of_another"),
        masked_by: None,
    },
    Mutant {
        name: "labels-of-one-prefix",
        breaks: Served,
        bug: "one namespace takes all labels of the library's metrics",
        edits: &[edit(
            "src/metrics/queues.rs",
            "left > with_prefix.unwrap_or_default()",
            "left > with_prefix.unwrap_or_default().min(0)",
        )],
        caught_by: test("server", "the_worst_of_one_does_the_other_no_harm"),
        masked_by: None,
    },
];
