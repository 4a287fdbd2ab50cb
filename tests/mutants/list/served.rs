use super::{always, drop, never, put, server};
use crate::mutant::{Mutant, Promise::Served};

pub(crate) const MUTANTS: &[Mutant] = &[
    Served.bug(
        "server-shares-without-bound",
        "a token has as much of what tokens share as there is",
        &[always("Shares::make_room", "Evicted::OfToken")],
        server("names_that_one_polls_keep_no_other_from_polling"),
    ),
    Served.bug(
        "server-lines-not-evicted",
        "an idle push of lines goes on although others need its room",
        &[put("Lines::next", "evicted() «»", ", if self.is_over")],
        server("idle_pushes_of_lines_keep_no_other_from_pushing_lines"),
    ),
    Served.bug(
        "server-lease-without-bytes",
        "a lease has as many events as there are, whatever their size",
        &[put("Pool::lease", "LEASED_BYTES_MAX«»", "<< 20")],
        server("a_lease_has_no_more_bytes_than_a_response_may"),
    ),
    Served.bug(
        "server-labels-of-one",
        "one namespace takes all labels of metrics",
        &[put(
            "KnownLabels::admit",
            "$of_owner.map_or(0, HashSet::len) >= $left.min(LABELS_OF_ONE_MAX)",
            "$left == 0 || LABELS_OF_ONE_MAX == 0",
        )],
        server("the_worst_of_one_does_the_other_no_harm"),
    ),
    Served.bug(
        "server-log-waits",
        "a log line waits for the reader of the output",
        &[
            put(
                "LineQueue::add",
                "!$fits || $messages.try_send",
                "$messages.send",
            ),
            put(
                "LineQueue::add",
                "$fits = $waiting.saturating_add $... «is_err()»",
                "is_err() || (!$fits && false)",
            ),
        ],
        server("an_output_that_nobody_reads_stops_no_request_and_no_stop"),
    ),
    Served.bug(
        "server-new-queue-waits-for-disk",
        "a push to a new queue waits for the disk of the shared state",
        &[put(
            "SharedState::put_soon",
            "Ok($local.put_later($table, $key, $value))",
            "$local.put($table, $key, $value).await",
        )],
        server("a_disk_that_does_not_respond_stops_no_push_to_a_new_queue"),
    ),
    Served.bug(
        "server-stop-waits-for-heads",
        "a stop waits the whole grace for half a head",
        &[put("accept", "usize::MAX", "0")],
        server("a_stop_does_not_wait_for_half_a_request"),
    ),
    Served.bug(
        "server-stop-waits-for-bodies",
        "a stop waits the whole grace for half a body",
        &[put(
            "Bodies::read",
            "$bytes_max: usize $... «$stopping» => Err",
            "$stopping , if $bytes_max == 0",
        )],
        server("a_stop_does_not_wait_for_half_a_request"),
    ),
    Served.bug(
        "server-hangup-ends",
        "HUP ends the server",
        &[put("Signals::next", "«Reload», _", "Stop")],
        server("signals_end_the_server_only_if_they_mean_it"),
    ),
    Served.bug(
        "server-certificate-not-followed",
        "a certificate is read again by a signal alone",
        &[put(
            "Certificates::follow",
            "await; if $now != $seen «»",
            "&& false",
        )],
        server("a_renewed_certificate_is_served_without_a_restart"),
    ),
    Served.bug(
        "server-no-compiled-roots",
        "without certificates of the system no command works",
        &[put("client::builder", "HAS_CERTIFICATES «»", "|| true")],
        server("the_container_serves_makes_tokens_and_delivers_webhooks"),
    ),
    Served.bug(
        "server-idle-connections-stay",
        "idle connections keep their places from new ones",
        &[put(
            "Connections::end_idlest",
            "$state.ended.cancel()",
            "drop($state)",
        )],
        server("with_few_descriptors_the_idlest_connections_end_and_operators_get_in"),
    ),
    Served.bug(
        "server-error-of-any-queue",
        "the error of a call is that of any event of its id",
        &[
            put(
                "calls::last_record",
                "records()«.queue($queue.name().as_str())»",
                "",
            ),
            put(
                "calls::last_record",
                "($queue, $id): ($..) $... «» let $records = $pool.bus()",
                "let _ = $queue;",
            ),
        ],
        server("an_event_of_the_same_id_is_another_one"),
    ),
    Served.bug(
        "server-reply-unchecked",
        "a reply is handed out to a token that has ended meanwhile",
        &[drop(
            "calls::reply",
            "Some($found) $... check($app).await?; let $reply",
        )],
        server("what_waits_for_a_reply_ends_with_its_token_everywhere"),
    ),
    Served.bug(
        "server-body-unchecked",
        "a token that ends while its body arrives still publishes",
        &[never("Call::check_again", "self.grant")],
        server("a_body_that_takes_its_time_is_checked_at_its_end"),
    ),
    Served.bug(
        "server-respawn-doubles",
        "two respawns at the same time put a job back twice",
        &[put(
            "respawn_some",
            "job_id::after($job.id)",
            "call.app.job_ids.next(queue, 0)",
        )],
        server("respawns_at_the_same_time_double_no_job"),
    ),
    Served.bug(
        "server-records-by-any-index",
        "an empty page of records tells of those of others",
        &[
            put("records::PAGES_MAX", "64", "16"),
            put(
                "records::list",
                "matching_page(«$records», &$matching",
                "match &matching.key { Some(key) => $records.key(key.as_str()), None => $records }",
            ),
        ],
        server("a_tenant_learns_nothing_of_another"),
    ),
    Served.bug(
        "labels-of-one-prefix",
        "one namespace takes all labels of the library's metrics",
        &[put(
            "QueueLabels::has_room",
            "$left > $with_prefix.unwrap_or_default()«»",
            ".min(0)",
        )],
        server("the_worst_of_one_does_the_other_no_harm"),
    ),
];
