//! The mover's mailbox: news is never left lying while he sleeps.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::flow::node::mailbox::Mailbox;

/// What a mailbox does.
trait Box: Send + Sync + 'static {
    fn add(&self, news: usize, small: bool) -> bool;
    fn take(&self, news: &mut Vec<usize>);
    fn may_sleep(&self, enough: usize) -> bool;
}

impl Box for Mailbox<usize> {
    fn add(&self, news: usize, small: bool) -> bool {
        Mailbox::add(self, news, small)
    }

    fn take(&self, news: &mut Vec<usize>) {
        Mailbox::take(self, news);
    }

    fn may_sleep(&self, enough: usize) -> bool {
        Mailbox::may_sleep(self, enough)
    }
}

/// One that looks what is there, and says later what it sleeps for.
struct Hasty(Mutex<Vec<usize>>, Mutex<usize>);

impl Box for Hasty {
    fn add(&self, news: usize, small: bool) -> bool {
        let mut waiting = self.0.lock().unwrap();
        waiting.push(news);
        !small || waiting.len() == *self.1.lock().unwrap()
    }

    fn take(&self, news: &mut Vec<usize>) {
        std::mem::swap(&mut *self.0.lock().unwrap(), news);
    }

    fn may_sleep(&self, enough: usize) -> bool {
        let len = self.0.lock().unwrap().len();
        *self.1.lock().unwrap() = enough;
        len < enough
    }
}

/// Adds each news from a thread of its own, and reads until all have been seen. If a wake-up is
/// lost the reader sleeps for ever, which is a deadlock.
fn all_are_read<B: Box>(mailbox: impl Fn() -> B + Send + Sync + 'static, small: [bool; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let mailbox = Arc::new(mailbox());
        let reader = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || read_all(&*mailbox, small.len())
        });
        let adders: Vec<_> = small
            .into_iter()
            .enumerate()
            .map(|(news, small)| {
                let (mailbox, reader) = (Arc::clone(&mailbox), reader.thread().clone());
                thread::spawn(move || {
                    if mailbox.add(news, small) {
                        reader.unpark();
                    }
                })
            })
            .collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        reader.join().unwrap();
    });
}

/// Sleeps for two small news first, and then for any.
fn read_all(mailbox: &impl Box, many: usize) {
    let (mut seen, mut news, mut enough) = (0, Vec::new(), 2);
    while seen < many {
        mailbox.take(&mut news);
        seen += news.drain(..).count();
        if seen < many && mailbox.may_sleep(enough) {
            thread::park();
        }
        enough = 1;
    }
}

#[test]
fn two_small_news_wake_who_sleeps_for_two() {
    all_are_read(Mailbox::default, [true, true]);
}

#[test]
fn other_news_wakes_whatever_he_sleeps_for() {
    all_are_read(Mailbox::default, [false, true]);
    all_are_read(Mailbox::default, [false, false]);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_reader_who_looks_before_he_says_what_he_sleeps_for_sleeps_for_ever() {
    all_are_read(
        || Hasty(Mutex::new(Vec::new()), Mutex::new(2)),
        [true, true],
    );
}
