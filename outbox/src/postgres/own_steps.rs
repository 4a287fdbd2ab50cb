//! The steps of this relay, by which it knows whether another one has passed rows.

/// The numbers of the steps count up, whoever makes them.
#[derive(Debug, Default)]
pub(super) struct OwnSteps {
    last: Option<u64>,
    /// Whether others have made steps between those of this relay.
    has_others: bool,
}

impl OwnSteps {
    /// Notes a step of this relay, with or without rows.
    pub(super) fn made(&mut self, n: u64) {
        self.has_others |= self.last.is_none_or(|last| last.checked_add(1) != Some(n));
        self.last = Some(n);
    }

    /// Returns whether all steps were this relay's since this was asked last.
    pub(super) fn are_all(&mut self) -> bool {
        !std::mem::take(&mut self.has_others)
    }
}

#[cfg(test)]
mod tests {
    use super::OwnSteps;

    #[test]
    fn a_step_of_another_is_told_whichever_own_ones_come_before_it_is_asked() {
        let mut steps = OwnSteps::default();
        steps.made(7);
        assert!(!steps.are_all(), "what was before is not known");
        steps.made(8);
        steps.made(9);
        assert!(steps.are_all());
        // Another one makes the tenth, and then this one two, of which the first has no rows.
        steps.made(11);
        steps.made(12);
        assert!(!steps.are_all());
        steps.made(13);
        assert!(steps.are_all());
        // Of another database, whose steps begin anew.
        steps.made(1);
        assert!(!steps.are_all());
    }
}
