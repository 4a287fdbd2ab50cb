use super::{always, drop, never, outbox, put, put_in_text};
use crate::mutant::{Mutant, Promise::InTransaction};

pub(crate) const MUTANTS: &[Mutant] = &[
    InTransaction.bug(
        "outbox-cursor-by-number",
        "a relay goes on behind the newest transaction that it has seen, and asks for none that ran \
         then",
        &[
            put("postgres::page::select", "$claim.done.ended_until($reading)", "Vec::<u64>::new()"),
            put_in_text(
                "postgres::snapshot::ended_since",
                "where pg_visible_in_snapshot(late.xid, pg_current_snapshot())",
                "where false",
            ),
        ],
        outbox("what_commits_late_is_not_passed_over"),
    ),
    InTransaction.bug(
        "outbox-passed-before-accepted",
        "rows are passed whether the store has accepted them or not",
        &[put(
            "settle::closing",
            "«$closing.deferred.push(Deferred { $.. })»",
            "std::mem::drop($closing.deferred.len())",
        )],
        outbox("an_outbox_grows_while_the_store_is_away"),
    ),
    InTransaction.bug(
        "outbox-done-not-looked-at",
        "an attempt has its effect although an earlier one has committed it",
        &[always("Context::finish_in", "$tx.insert_done($done).await?")],
        outbox("an_effect_and_the_end_of_its_event_commit_together"),
    ),
    InTransaction.bug(
        "outbox-old-event-doubled",
        "an event whose push may have been accepted goes on under another id when its own is too old",
        &[put("relay::push::out_of_time", "if «$event.is_repeated()»", "$event.is_repeated() && false")],
        outbox("an_old_event_of_which_nothing_is_known_is_put_aside"),
    ),
    InTransaction.bug(
        "outbox-copy-not-noticed",
        "a copy of a database goes on with the transaction ids of the first",
        &[never(
            "Look::next",
            "$step.cluster != self.cluster || $step.done.xmax() > self.now.xmax()",
        )],
        outbox("a_copy_of_a_database_loses_nothing"),
    ),
    InTransaction.bug(
        "outbox-refused-blocks",
        "an event that can never be accepted is tried for ever",
        &[put("RowOutcome::of", "Self::refused($error.to_string())", "Self::NotYet")],
        outbox("an_event_under_the_id_of_another_is_refused_and_goes_on_if_an_operator_says_so"),
    ),
    InTransaction.bug(
        "outbox-never-emptied",
        "partitions whose rows are settled stay as they are",
        &[drop("PostgresSource::sweep_rows", "for $row in $..")],
        outbox("no_dead_rows_and_no_room_are_left_behind"),
    ),
    InTransaction.bug(
        "outbox-one-delays-all",
        "a page is passed up to the first row that the store does not take, and the others wait",
        &[put(
            "relay::settle::passed",
            "$row.outcome.is_settled() || «$may» && $row.group.is_some()",
            "$may && false",
        )],
        outbox("a_queue_that_the_store_does_not_take_delays_no_other"),
    ),
    InTransaction.bug(
        "outbox-deferred-forgets",
        "of a deferred event it is forgotten that it may have been accepted",
        &[
            put("relay::settle::closing", "is_repeated: «$is_unknown || $is_repeated»", "false && $is_unknown"),
            put("relay::settle::settling", "RowOutcome::OutOfTime if «!$is_repeated»", "!$is_repeated || true"),
            put("relay::settle::settling", "«$settling.maybe.push($key)»", "$settling.never.push($key)"),
        ],
        outbox("what_is_deferred_for_long_is_neither_lost_nor_doubled"),
    ),
    InTransaction.bug(
        "outbox-overtaken",
        "an event of a unique key is pushed before an earlier one that the store has not taken",
        &[
            never("Run::push_groups", "!$is_blocked && self.may_have_rows(&$group)"),
            never("Run::push_taken", "$key.is_some_and($..)"),
        ],
        outbox("after_an_outage_the_event_stands_that_a_direct_push_leaves"),
    ),
    InTransaction.bug(
        "outbox-mysql-cursor-by-number",
        "MySQL: rows are read behind what was passed, and never from the first on",
        &[
            put("ReadStart::begin", "$now >= self.whole_at && self.beside.is_empty()", "false"),
            put("ReadStart::passed", "$now >= self.passed[1].0 + BEHIND_FOR", "true"),
        ],
        outbox("what_commits_late_in_mysql_is_not_passed_over_and_delays_nothing"),
    ),
    InTransaction.bug(
        "outbox-mysql-waits-for-users",
        "MySQL: rows are found by a read of the whole table, which waits for those that are inserted",
        &[put_in_text("mysql::sql::by_keys", "o.n = wanted.k", "o.n + 0 = wanted.k")],
        outbox("what_commits_late_in_mysql_is_not_passed_over_and_delays_nothing"),
    ),
    InTransaction.bug(
        "outbox-mysql-copy-not-noticed",
        "MySQL: the rows of a copy count as never pushed",
        &[never("MysqlSource::identify", "$identity.is_of_another()")],
        outbox("a_copy_of_mysql_is_noticed"),
    ),
    InTransaction.bug(
        "outbox-restored-row-doubled",
        "an event whose id is too old and that was pushed before a restore goes on under another id",
        &[put(
            "relay::push::out_of_time",
            "match «has_any($records).await»",
            "has_any($records).await.map(|_| false)",
        )],
        outbox("what_a_restored_backup_has_again_is_handled_once"),
    ),
    InTransaction.bug(
        "outbox-buckets-changed-doubled",
        "an event of plain SQL that is read again is not looked for in other buckets",
        &[never("push::relay::is_elsewhere", "$found.is_some()")],
        outbox("plain_rows_that_are_there_again_are_handled_once_whatever_the_number_of_buckets"),
    ),
    InTransaction.bug(
        "outbox-renewed-alike",
        "events of one chosen id that go on under a new one have one again",
        &[never("Bus::renew_staged", "$staged.is_given")],
        outbox("events_of_one_chosen_id_are_each_handled_once_an_operator_says_so"),
    ),
    InTransaction.bug(
        "outbox-slow-pages-in-vain",
        "a page that took longer than it was held is held no longer the next time",
        &[put(
            "PostgresSource::close_page",
            "self.hold = «(2 * $took).clamp(HOLD_MIN, HOLD_MAX)»",
            "HOLD_MIN",
        )],
        outbox("relays_whose_pages_take_long_go_on_beside_each_other"),
    ),
    InTransaction.bug(
        "outbox-stopped-holds",
        "a relay that was stopped keeps the rows that it has not come to",
        &[always("PostgresSource::release_rows", "!self.may_hold")],
        outbox("what_a_relay_has_not_come_to_is_at_once_free_for_the_next"),
    ),
    InTransaction.bug(
        "outbox-text-blocks",
        "a text that PostgreSQL cannot send is asked for as it is",
        &[put_in_text("postgres::page::sendable", "getdatabaseencoding() = 'UTF8' or", "true or")],
        outbox("a_text_of_postgresql_that_is_not_utf_8_is_put_aside_and_blocks_nothing"),
    ),
    InTransaction.bug(
        "outbox-anew-forgotten",
        "of a deferred event it is forgotten that an operator has put it back anew",
        &[put("Run::push_taken", "$is_anew = «$row.is_anew»", "$row.is_anew && false")],
        outbox("what_an_operator_has_put_back_anew_is_so_also_once_it_is_deferred"),
    ),
];
