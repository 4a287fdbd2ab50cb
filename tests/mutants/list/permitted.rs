//! What a token, a page or a guess may do at a server.

use super::{always, drop, never, put, server};
use crate::mutant::{Mutant, Promise::Served};

pub(crate) const MUTANTS: &[Mutant] = &[
    Served.bug(
        "server-ends-what-is-leased",
        "a publisher ends what a consumer has leased meanwhile",
        &[put(
            "Pool::end",
            "ends::end_if($queue, $id, «&$may»)",
            "|_| true",
        )],
        server("what_is_leased_meanwhile_is_its_consumers"),
    ),
    Served.bug(
        "server-republish-not-taken-back",
        "the new job of a republish that is refused stays",
        &[never("publish::republish", "recall($..)")],
        server("what_is_leased_meanwhile_is_its_consumers"),
    ),
    Served.bug(
        "server-step-outlives-its-token",
        "a step goes on when its token has ended",
        &[put(
            "Admitted::step",
            "$refusal = «$grant.ended($tokens)»",
            "std::future::pending()",
        )],
        server("what_takes_many_steps_ends_with_its_token_everywhere"),
    ),
    Served.bug(
        "server-step-unchecked",
        "what has waited for its turn begins although its token has ended",
        &[drop("Admitted::step", "$grant.check($tokens).await?;")],
        server("what_waits_for_its_turn_ends_with_its_token_everywhere"),
    ),
    Served.bug(
        "server-cut-push-uncounted",
        "a push whose client hangs up gives back what it took of its limit",
        &[put(
            "access::counted",
            "«whole::finish($counted).await»",
            "Some($counted.await)",
        )],
        server("a_client_that_hangs_up_in_a_push_has_used_its_limit"),
    ),
    Served.bug(
        "server-limit-never-used",
        "a publish gives back what it took of its limit",
        &[drop(
            "lmstfy::handle",
            "$taken.into_iter().for_each(LimitedCall::keep);",
        )],
        server("publishes_are_limited"),
    ),
    Served.bug(
        "server-bulk-not-undone",
        "what a bulk has pushed before it failed stays",
        &[never("publish::send", "$ids.len() > 1")],
        server("a_large_bulk_that_fails_in_the_middle_is_undone"),
    ),
    Served.bug(
        "server-republish-uncounted",
        "a republish that replaces nothing is a push that no limit counts",
        &[put("Replaced::find", "let mut $is_there = «false»", "true")],
        server("publishes_are_limited"),
    ),
    Served.bug(
        "server-mark-of-anybody",
        "an event is shown under the id that its header says",
        &[put(
            "respawn_notes::known_id",
            "$noted.contains(&$id)«»",
            "|| $noted.is_empty()",
        )],
        server("a_mark_of_no_respawn_is_no_name_of_a_job"),
    ),
    Served.bug(
        "server-foreign-pages",
        "a page of another origin acts by its user's browser",
        &[always("origin::refuse_foreign", "!is_foreign($..)")],
        server("a_page_of_another_origin_does_nothing"),
    ),
    Served.bug(
        "server-links-consume",
        "a link of another origin consumes",
        &[put(
            "origin::is_foreign",
            "«!$path.starts_with($..) && (!$path.starts_with($..) || $path == DESCRIPTION)»",
            "true",
        )],
        server("a_page_of_another_origin_does_nothing_in_a_browser"),
    ),
    Served.bug(
        "server-metrics-to-any-host",
        "a page whose name points here reads what asks for no account",
        &[put(
            "origin::known_host",
            "$admin.accounts.is_empty() «|| OPEN.contains($..)»",
            "",
        )],
        server("a_host_may_be_listed"),
    ),
    Served.bug(
        "server-guesses-without-a-wait",
        "passwords are guessed as fast as they are sent",
        &[drop("LoginThrottle::attempt_of", "$guesses.insert($..);")],
        server("guesses_are_as_slow_wherever_they_are_made"),
    ),
    Served.bug(
        "server-republish-beside-a-respawn",
        "a republish leaves what a respawn has put back meanwhile",
        &[put(
            "EndStep::successors",
            "$noted = «respawn_notes::of($..).await?»",
            "Vec::new()",
        )],
        server("a_republish_ends_what_a_respawn_puts_back_meanwhile"),
    ),
    Served.bug(
        "server-end-before-the-note-goes",
        "what a respawn pushes while its note goes stays beside the end of its job",
        &[put(
            "EndStep::successors",
            "$noted.into_iter().filter(|_| «!$was_leased»)",
            "false",
        )],
        server("what_a_respawn_pushes_until_its_note_goes_is_ended"),
    ),
    Served.bug(
        "server-cut-stream-loses-leases",
        "what a stream that is cut was sent comes back though its consumer goes on",
        &[put("cut_leases::give_back", "«CUT_REST»", "Duration::ZERO")],
        server("what_a_stream_did_not_settle_comes_back"),
    ),
    Served.bug(
        "server-cut-seen-late",
        "what is extended before the server sees that a stream is cut comes back",
        &[put(
            "cut_leases::give_back",
            "|| «$now.checked_sub($..).unwrap_or($now)»",
            "$now",
        )],
        server("what_a_stream_did_not_settle_comes_back"),
    ),
    Served.bug(
        "server-note-cannot-go",
        "where a note cannot be removed, what was respawned stays beside the end of its job",
        &[put(
            "EndStep::successors",
            "$forgotten = «respawn_notes::forget($..).await»",
            "Ok(respawn_notes::forget(self.call, self.known).await?)",
        )],
        server("what_a_respawn_pushes_is_ended_though_its_note_cannot_go"),
    ),
    Served.bug(
        "server-drain-in-its-rest",
        "a stream that waits for its token's next window does not see that it is drained",
        &[put(
            "LeaseStream::step",
            "() = «self.in_flight.draining.cancelled()» => {}",
            "std::future::pending()",
        )],
        server("each_message_of_a_stream_counts"),
    ),
    Served.bug(
        "server-reply-of-a-lost-lease",
        "the reply of a lease that was lost counts as that of the next one",
        &[put(
            "ReplyPlace::find",
            "$done_by.map(text_of)",
            "$done_by.map(text_of).filter(|_| false)",
        )],
        server("a_reply_counts_by_the_end_of_its_lease_alone"),
    ),
    Served.bug(
        "server-audit-of-the-loud",
        "one namespace pushes the lines of another out of the audit",
        &[put(
            "token::place_of",
            "$place.replace($..)",
            "$place.split('/').take(1).collect()",
        )],
        server("lines_of_the_audit_have_a_bound_in_each_namespace"),
    ),
];
