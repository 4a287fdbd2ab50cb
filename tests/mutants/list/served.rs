use super::{always, drop, earlier, lib, never, pages, put, server};
use crate::mutant::{Mutant, Promise::Served};

pub(crate) const MUTANTS: &[Mutant] = &[
    Served.bug(
        "server-clock-jumps",
        "the clock of a test server jumps over what is to be done on the way",
        &[put(
            "test_clock::advance",
            "$wakes.map_or($left, $..)",
            "$wakes.map_or($left, |_| $left)",
        )],
        server("each_occurrence_of_a_schedule_is_pushed_on_the_way_and_none_is_missed"),
    ),
    Served.bug(
        "server-bulk-cut",
        "a request that changes something ends where its client hangs up",
        &[always("http::whole::run", "matches!($..)")],
        server("a_client_that_hangs_up_in_a_bulk_leaves_it_done_and_audited"),
    ),
    Served.bug(
        "server-place-leaked",
        "a connection that has ended keeps its place",
        &[put(
            "Connections::open",
            "Ok($place) => «$place»",
            "{ $place.forget(); Arc::clone(&self.places).try_acquire_owned().ok()? }",
        )],
        server("a_client_that_hangs_up_in_a_bulk_leaves_it_done_and_audited"),
    ),
    Served.bug(
        "server-clock-of-a-file",
        "a manual clock is taken with a store that lasts",
        &[put(
            "Settings::clock_refusal",
            "$url != \"memory:\"",
            "$url.is_empty()",
        )],
        server("a_manual_clock_is_refused_with_a_store_that_lasts"),
    ),
    Served.bug(
        "server-drains-late",
        "a stream that is drained goes on to send",
        &[drop("Waiters::drain", "$stream.draining.cancel();")],
        server("a_consumer_that_stops_is_sent_nothing_more"),
    ),
    Served.bug(
        "server-shares-without-bound",
        "a token has as much of what tokens share as there is",
        &[never("Shares::make_room", "$is_over($of_token, self.bounds.of_each)")],
        server("names_that_one_polls_keep_no_other_from_polling"),
    ),
    Served.bug(
        "server-mistyped-rights",
        "a right of a new token that is mistyped goes unread, and the token has all",
        &[drop("tokens::created", "check_names(&$query, &$form)?;")],
        server("empty_rights_are_no_rights"),
    ),
    Served.bug(
        "dashboard-exports-formulas",
        "an export of the dashboard has cells that a spreadsheet takes for formulas",
        &[never("text::cell", "starts_with($)")],
        pages("no_cell_of_an_export_is_a_formula_or_a_command"),
    ),
    Served.bug(
        "server-state-of-a-lost-file",
        "a token is confirmed although the file of the state is not there any more",
        &[always("OwnFile::check", "$named.is_some_and($..)")],
        server("nothing_is_confirmed_into_a_file_of_the_state_that_is_not_there"),
    ),
    Served.bug(
        "server-expiry-by-its-own-clock",
        "a token expires when it does by the clock of each server",
        &[drop("RemoteState::versions", "self.ahead.note($..);")],
        server("a_token_expires_for_all_servers_at_once_whatever_their_clocks_say"),
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
            "$more >= $left.min(LABELS_OF_ONE_MAX)",
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
        &[put(
            "stored_replies::last_record",
            "«queue(&$queue.name).»id($id)",
            "",
        )],
        server("an_event_of_the_same_id_is_another_one"),
    ),
    Served.bug(
        "server-reply-unchecked",
        "a reply is handed out to a token that has ended meanwhile",
        &[drop("calls::reply", "$grant.check($app).await?")],
        server("what_waits_for_a_reply_ends_with_its_token_everywhere"),
    ),
    Served.bug(
        "server-body-unchecked",
        "a token that ends while its body arrives still publishes",
        &[earlier(
            "App::read",
            "$grant.check(&self.tokens)",
            "$read.await.map_err",
        )],
        server("a_body_that_takes_its_time_is_checked_at_its_end"),
    ),
    Served.bug(
        "server-thrown-body-unchecked",
        "a token that ends while a body is thrown away still deletes",
        &[drop("lmstfy::dispatch", "$call.check_again().await?")],
        server("a_body_that_is_thrown_away_is_checked_at_its_end"),
    ),
    Served.bug(
        "server-leases-unchecked",
        "what was leased is handed out to a token that has ended meanwhile",
        &[never("Undelivered::allowed", "!self.is_empty()")],
        server("what_waits_for_an_event_ends_with_its_token_everywhere"),
    ),
    Served.bug(
        "server-lines-end-without-words",
        "a push of lines that ends early does not say why",
        &[put(
            "Lines::ended",
            "Some((self.number, Err($problem)))",
            "{ let _ = $problem; None }",
        )],
        server("what_a_stop_ends_says_so"),
    ),
    Served.bug(
        "server-large-bodies-without-room",
        "large bodies that are not finished take as much memory as there is",
        &[never(
            "Bodies::collect",
            "$room.large.is_none() && $seen > SMALL_BYTES",
        )],
        server("unfinished_bodies_of_one_take_little_and_keep_no_other_from_publishing"),
    ),
    Served.bug(
        "server-respawn-lists-again",
        "a respawn lists all dead jobs again for each ten of them",
        &[put(
            "DeadJobs::next",
            "self.list = «$list.into_iter()»",
            "{ $list.truncate(10); (self.place, self.is_last) = (None, $list.is_empty()); \
             $list.into_iter() }",
        )],
        server("each_of_many_respawned_jobs_costs_no_more_than_each_of_few"),
    ),
    Served.bug(
        "dashboard-shows-the-last-round",
        "a page after an action shows what the last round saw",
        &[never("action::act", r#"$.get("queue")"#)],
        pages("every_page_shows_a_pause_and_a_resume_at_once"),
    ),
    Served.bug(
        "command-leaves-no-trace",
        "what a command does to a queue is in no audit",
        &[drop(
            "Store::set_queue",
            r#"self.audit_done("rate of queue set", $queue).await"#,
        )],
        server("every_command_that_changes_something_leaves_a_line"),
    ),
    Served.bug(
        "dashboard-sweep-unchecked",
        "a sweep goes on after its user has lost the right to it",
        &[put(
            "Sweep::waits_until",
            "Ok($grant.check().await?)",
            "Ok(())",
        )],
        pages("a_sweep_ends_with_its_user_and_says_why"),
    ),
    Served.bug(
        "dashboard-waiting-sweep-unchecked",
        "a sweep that waits for its next step does not end with its user",
        &[put(
            "Sweep::waits_until",
            "ended = $grant.ended() «»",
            ", if self.id == u64::MAX",
        )],
        pages("a_sweep_ends_with_its_user_and_says_why"),
    ),
    Served.bug(
        "dashboard-form-unchecked",
        "a user who is removed while a form arrives still changes things",
        &[earlier(
            "Form::from_request",
            "let $visit = Visit::from_request_parts",
            "read_form($request)",
        )],
        pages("a_form_that_takes_its_time_is_checked_at_its_end"),
    ),
    Served.bug(
        "dashboard-sweeps-of-one",
        "one user's sweeps keep all others from sweeping",
        &[put("Bounds::admit", "self.of_user", "99")],
        pages("the_sweeps_of_one_keep_no_other_from_sweeping_and_hide_none"),
    ),
    Served.bug(
        "labels-without-the-first-of-each",
        "some namespaces together take all labels of the library's metrics",
        &[put(
            "QueueLabels::is_first",
            "$own.taken.first < self.max / 2",
            "false",
        )],
        lib("whoever_makes_up_names_leaves_labels_to_others"),
    ),
    Served.bug(
        "server-respawn-doubles",
        "two respawns at the same time put a job back twice",
        &[put(
            "dead::with_note",
            "job_id::after($job.id, $job.pushed)",
            "call.app.job_ids.next(queue, None, 0)",
        )],
        server("respawns_at_the_same_time_double_no_job"),
    ),
    Served.bug(
        "server-respawn-loses-the-id",
        "a respawn that fails leaves a job that has died again without the id that clients know",
        &[put("dead::respawn_some", "Some($it.job.id)", "None")],
        server("a_respawn_that_fails_leaves_a_job_the_id_that_clients_know"),
    ),
    Served.bug(
        "server-respawn-without-end",
        "a respawn puts back what it has put back and dies again",
        &[put(
            "DeadJobs::next",
            "self.list = «$list.into_iter()»",
            "{ (self.place, self.is_last) = (None, $list.is_empty()); $list.into_iter() }",
        )],
        server("what_dies_again_meanwhile_is_put_back_once"),
    ),
    Served.bug(
        "server-records-by-any-index",
        "an empty page of records tells of those of others",
        &[
            put("records::matching_page", "PAGES_MAX", "16"),
            put(
                "records::read_page",
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
            "$left > «$with_prefix.map_or(0, |$taken| $taken.more)»",
            "0",
        )],
        server("the_worst_of_one_does_the_other_no_harm"),
    ),
    Served.bug(
        "server-schedules-of-others",
        "a tenant is shown the schedules of another",
        &[put(
            "v1::schedules::within",
            "$name.strip_prefix($namespace)?.strip_prefix('.')?",
            "$name.split_once('.')?.1",
        )],
        server("the_other_makes_no_difference"),
    )
    .masked_by(
        "the schedules of a namespace are in a queue of its own",
        &[put(
            "Link::home",
            "«&beside($name, SCHEDULES)»",
            "{ let _ = beside($name, SCHEDULES); SCHEDULES }",
        )],
    ),
    Served.bug(
        "server-schedule-taken-over",
        "a token takes over a schedule of a queue that it is not for",
        &[always("Confined::check_set", "$link.removed || $")],
        server("a_token_of_a_queue_has_the_schedules_of_that_queue"),
    ),
    Served.bug(
        "server-own-queues-open",
        "a token of the namespace `duly` reaches the schedules of all namespaces",
        &[never("check::check_namespace", "$namespace == OWN_NAMESPACE")],
        server("no_token_reaches_a_queue_of_duly_itself"),
    ),
    Served.bug(
        "server-schedule-payload-read",
        "the payload of a schedule is read and written anew",
        &[put(
            "ScheduleBody::options",
            "|$json| $json.get().to_owned()",
            "|$json| serde_json::from_str::<serde_json::Value>($json.get()).unwrap_or_default().to_string()",
        )],
        server("a_payload_is_kept_byte_by_byte"),
    ),
];
