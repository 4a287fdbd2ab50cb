use super::*;

const START_US: u64 = 1_700_000_000_000_000;
const DAY_US: i64 = 86_400_000_000;

/// A machine with a clock that is wrong by some time.
struct Machine {
    clock: SteadyClock,
    true_us: u64,
    last_us: u64,
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self {
            clock: SteadyClock::default(),
            true_us: 0,
            last_us: 0,
        };
        assert_eq!(machine.passes(0, 0).now_us, START_US);
        machine
    }

    fn passes(&mut self, passed_us: u64, wrong_us: i64) -> SteadyReading {
        self.true_us += passed_us;
        let now = Mono::from_nanos(1_000_000_000 + self.true_us * 1_000);
        let wall_us = (START_US + self.true_us).saturating_add_signed(wrong_us);
        let reading = self.clock.read(now, wall_us);
        assert!(reading.now_us >= self.last_us, "time went back");
        self.last_us = reading.now_us;
        reading
    }

    /// Returns by how much the store's time is ahead of the true one.
    fn ahead_us(&self) -> i64 {
        self.last_us.cast_signed() - (START_US + self.true_us).cast_signed()
    }
}

#[test]
fn a_glitch_of_any_size_changes_nothing() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let mut machine = Machine::new();
        let size = 1 << random.u32(10..37);
        let wrong_us = if random.bool() { size } else { -size };
        machine.passes(random.u64(1..60_000_000), 0);
        let mut left_us = random.u64(0..9_900_000);
        machine.passes(0, wrong_us);
        while left_us > 0 {
            let passed_us = random.u64(1..=left_us.min(4_000_000));
            left_us -= passed_us;
            machine.passes(passed_us, wrong_us);
        }
        machine.passes(1, 0);
        for _ in 0..5 {
            machine.passes(random.u64(1..10_000_000), 0);
            assert_eq!(machine.ahead_us(), 0, "after {wrong_us} us");
        }
    }
}

#[test]
fn a_clock_set_right_is_followed_after_ten_seconds() {
    for wrong_us in [JUMP_US + 1, 60_000_000, DAY_US, 56 * 365 * DAY_US] {
        let mut machine = Machine::new();
        machine.passes(5_000_000, wrong_us);
        let before = machine.passes(9_999_999, wrong_us);
        assert_eq!((machine.ahead_us(), before.ahead_us), (0, wrong_us));
        let jumped = machine.passes(1, wrong_us);
        assert_eq!((machine.ahead_us(), jumped.jumped_us), (wrong_us, wrong_us));
        assert!(jumped.is_steady());
        machine.passes(60_000_000, wrong_us);
        assert_eq!(machine.ahead_us(), wrong_us);
    }
}

#[test]
fn small_differences_and_a_clock_set_back_are_made_up_for_slowly() {
    for wrong_us in [JUMP_US / 2, -JUMP_US / 2, -DAY_US] {
        let mut machine = Machine::new();
        machine.passes(1_000_000, wrong_us);
        machine.passes(10_000_000, wrong_us);
        assert_eq!(machine.ahead_us(), 0);
        machine.passes(1_000_000, wrong_us);
        assert_eq!(machine.ahead_us(), 50_000 * wrong_us.signum());
        for _ in 0..9 {
            assert_eq!(machine.passes(1_000_000, wrong_us).jumped_us, 0);
        }
        let most_us = wrong_us.clamp(-500_000, 500_000);
        assert_eq!(machine.ahead_us(), most_us);
    }
}

/// A process that looks once a day is not fooled by a clock that is wrong whenever it looks.
#[test]
fn what_passed_before_a_difference_was_seen_does_not_count() {
    let mut machine = Machine::new();
    machine.passes(DAY_US.cast_unsigned(), -DAY_US / 4);
    machine.passes(1, -DAY_US / 4);
    assert_eq!(machine.ahead_us(), 0);
    let mut machine = Machine::new();
    machine.passes(DAY_US.cast_unsigned(), DAY_US);
    machine.passes(5_000_000, DAY_US);
    machine.passes(5_000_000, 0);
    machine.passes(5_000_000, DAY_US);
    assert_eq!(machine.ahead_us(), 0, "each glitch is one of its own");
}

#[test]
fn only_what_has_stood_is_believed() {
    let mut machine = Machine::new();
    machine.passes(1_000_000, 5_000_000);
    machine.passes(9_000_000, DAY_US);
    machine.passes(1_000_000, DAY_US);
    assert_eq!(machine.ahead_us(), 5_000_000);
    machine.passes(1_000_000, DAY_US);
    machine.passes(9_999_999, DAY_US);
    assert_eq!(machine.ahead_us(), 5_000_000);
    machine.passes(1, DAY_US);
    assert_eq!(machine.ahead_us(), DAY_US);
}

#[test]
fn readings_a_hair_apart_are_no_difference() {
    let mut machine = Machine::new();
    for wrong_us in [1, -300, 999, -999, 1_000] {
        assert!(machine.passes(30_000_000, wrong_us).is_steady());
        assert_eq!(machine.ahead_us(), 0);
    }
}
