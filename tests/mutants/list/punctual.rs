use super::{contract, delivery, edit, test};
use crate::mutant::{Mutant, Promise::Punctual};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "next-due-ignored",
        breaks: Punctual,
        bug: "the mover does not sleep until the next due time, but until something wakes it",
        edits: &[
            edit(
                "src/core/node/replies.rs",
                "next_due: reckon(next_due),\n                    ready: ready > 0,\n                    \
                 full: moved == *limit,",
                "next_due: Mono::MAX,\n                    ready: ready > 0,\n                    \
                 full: moved == *limit,",
            ),
            edit(
                "src/core/node/replies.rs",
                "next_due: reckon(next_due),\n                    ready: ready > 0,\n                    \
                 full: full ||",
                "next_due: Mono::MAX,\n                    ready: ready > 0,\n                    \
                 full: full ||",
            ),
        ],
        caught_by: delivery("nothing_starts_before_its_due_time_nor_much_later"),
        masked_by: None,
    },
    Mutant {
        name: "wake-up-not-told",
        breaks: Punctual,
        bug: "a push that is due sooner than all others wakes nobody",
        edits: &[edit(
            "src/store/shards.rs",
            "if is_earlier && news == WakeRule::Tell {",
            "if false && is_earlier && news == WakeRule::Tell {",
        )],
        caught_by: contract("a_watcher_is_told_of_work_that_comes_sooner"),
        masked_by: None,
    },
    Mutant {
        name: "redis-wake-up-not-published",
        breaks: Punctual,
        bug: "Redis: the script does not say on its channel that there is earlier work",
        edits: &[edit(
            "src/store/redis/lua/waiting.lua",
            "    call(\"SPUBLISH\", WAKE, origin)\n",
            "",
        )],
        caught_by: test(
            "redis_faults",
            "a_node_at_rest_is_woken_after_the_server_was_killed",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-full-node-calls-nobody",
        breaks: Punctual,
        bug: "Redis: a node that has no room for what is ready does not say so",
        edits: &[edit(
            "src/store/redis/lua/move_due.lua",
            "  call(\"SPUBLISH\", WAKE, \"!\" .. ARGV[3])\n",
            "",
        )],
        caught_by: test(
            "redis_store",
            "whoever_has_no_room_calls_the_others_and_not_itself",
        ),
        masked_by: None,
    },
    Mutant {
        name: "everybody-is-next-in-line",
        breaks: Punctual,
        bug: "every node that is no owner looks at every bucket a tenth of a second after each wake-up",
        edits: &[edit(
            "src/core/standby.rs",
            "            false => net,\n",
            "            false => options.non_owner_delay,\n",
        )],
        caught_by: test(
            "simulation",
            "a_lone_event_is_looked_for_by_two_nodes_and_not_by_all",
        ),
        masked_by: None,
    },
    Mutant {
        name: "call-during-a-look-forgotten",
        breaks: Punctual,
        bug: "the owner calls while a look of the next in line is on its way, whose answer undoes that",
        edits: &[edit(
            "src/core/standby.rs",
            "            self.is_called = true;\n",
            "",
        )],
        caught_by: test(
            "simulation",
            "a_call_that_comes_during_a_look_is_heard_when_the_look_found_nothing",
        ),
        masked_by: None,
    },
    Mutant {
        name: "overdue-waits-anew",
        breaks: Punctual,
        bug: "the next in line waits for the owner anew from each look at what is overdue",
        edits: &[edit(
            "src/core/node/replies.rs",
            "None => now - Duration::from_micros(now_us - due.as_micros()),",
            "None => now,",
        )],
        caught_by: test(
            "simulation",
            "what_is_overdue_waits_from_its_due_time_and_not_anew_from_each_look",
        ),
        masked_by: None,
    },
    Mutant {
        name: "mover-not-woken",
        breaks: Punctual,
        bug: "news for the mover do not wake it",
        edits: &[edit(
            "src/flow/node/inbox.rs",
            "if self.mailbox.add(input, is_end) {",
            "if self.mailbox.add(input, is_end) && false {",
        )],
        caught_by: delivery("nothing_starts_before_its_due_time_nor_much_later"),
        masked_by: None,
    },
    Mutant {
        name: "pool-called-before-it-has-the-jobs",
        breaks: Punctual,
        bug: "a publisher calls a worker before the jobs are in the ring, and not after",
        edits: &[edit(
            "src/flow/pool/publisher.rs",
            "        let published = self.producer.try_publish_many(jobs, wrap);
        if published > 0 {
            self.shared.call();
        }
        published
",
            "        self.shared.call();
        self.producer.try_publish_many(jobs, wrap)
",
        )],
        caught_by: test(
            "lib",
            "a_worker_is_called_when_its_job_is_there_and_not_before",
        ),
        masked_by: None,
    },
    Mutant {
        name: "last-look-forgotten",
        breaks: Punctual,
        bug: "a worker that leaves does not look once more whether a job came meanwhile",
        edits: &[edit(
            "src/flow/pool/wake.rs",
            "        if !has_work() {\n            return LeaveResult::Left { last };\n        }\n",
            "        if !has_work() || true {\n            return LeaveResult::Left { last };\n        }\n",
        )],
        caught_by: test("loom", "one_publisher_one_worker"),
        masked_by: None,
    },
    Mutant {
        name: "lingering-look-forgotten",
        breaks: Punctual,
        bug: "a worker that found a job while it lingered does not look whether there is another",
        edits: &[edit(
            "src/flow/pool/wake.rs",
            "            return false;
        }
        has_work()
",
            "            return false;
        }
        let _ = has_work;
        false
",
        )],
        caught_by: test(
            "loom",
            "a_handler_that_never_ends_keeps_nobody_from_the_next_job",
        ),
        masked_by: None,
    },
    Mutant {
        name: "mover-not-woken-when-enough-has-ended",
        breaks: Punctual,
        bug: "a mover that sleeps until some handlers have ended is not woken when they have",
        edits: &[edit(
            "src/flow/node/mailbox.rs",
            "!small || waiting.messages.len() == waiting.enough",
            "!small || waiting.messages.len() == 0",
        )],
        caught_by: test("loom", "two_small_news_wake_who_sleeps_for_two"),
        masked_by: None,
    },
];
