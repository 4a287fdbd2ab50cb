//! A whole number: that of a file, or the text of a variable.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Reads a number and nothing else: the format itself would take `on` for 1, and `1.6` for 2.
pub(super) fn whole<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    from.deserialize_any(Whole(PhantomData))
}

struct Whole<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
        write!(f, "a whole number from 0 to {most}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let wrong = || E::invalid_value(Unexpected::Unsigned(number), &self);
        T::try_from(number).map_err(|_| wrong())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let number = text.trim().parse::<u64>().ok();
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
