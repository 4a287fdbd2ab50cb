//! Random values of the types that a program does not define itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::Range;
use std::time::Duration;

use duly::codec::Raw;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Makes a value of this type.
pub(super) trait Make {
    fn make(rng: &mut Rng) -> Self;
}

/// Floats that show their bits, so that values are equal only if these are.
macro_rules! floats {
    ($($name:ident($ty:ty, $bits:ident);)+) => {$(
        #[derive(Clone, Copy, Serialize, Deserialize)]
        #[serde(transparent)]
        pub(super) struct $name($ty);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0.to_bits())
            }
        }

        impl Make for $name {
            fn make(rng: &mut Rng) -> Self {
                Self(match rng.u8(..8) {
                    0 => -0.0,
                    1 => rng.i32(-9..9) as $ty,
                    2 => <$ty>::MIN_POSITIVE / 8.0,
                    3 => [<$ty>::NAN, <$ty>::INFINITY, <$ty>::MIN][rng.usize(..3)],
                    _ => <$ty>::from_bits(rng.$bits(..)),
                })
            }
        }

        impl $name {
            /// One that every codec has.
            #[allow(dead_code)] // only of one of them
            pub(super) fn finite(rng: &mut Rng) -> Self {
                let made = std::iter::repeat_with(|| Self::make(rng));
                made.into_iter().find(|made| made.0.is_finite()).expect("most are")
            }
        }
    )+};
}

floats! {
    F32(f32, u32);
    F64(f64, u64);
}

macro_rules! integers {
    ($($ty:ident),+) => {$(
        impl Make for $ty {
            fn make(rng: &mut Rng) -> Self {
                match rng.u8(..4) {
                    0 => <$ty>::MIN,
                    1 => <$ty>::MAX,
                    2 => <$ty>::MAX / 2 + 1,
                    _ => rng.$ty(..),
                }
            }
        }
    )+};
}

integers!(
    i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize
);

impl Make for bool {
    fn make(rng: &mut Rng) -> Self {
        rng.bool()
    }
}

impl Make for char {
    fn make(rng: &mut Rng) -> Self {
        match rng.u8(..4) {
            0 => ['\0', '"', '\\', '\u{7F}', '\u{FFFF}', '\u{10FFFF}'][rng.usize(..6)],
            1 => rng.alphanumeric(),
            _ => rng.char(..),
        }
    }
}

impl Make for String {
    fn make(rng: &mut Rng) -> Self {
        (0..rng.usize(..12)).map(|_| char::make(rng)).collect()
    }
}

impl Make for () {
    fn make(_rng: &mut Rng) -> Self {}
}

impl<T> Make for PhantomData<T> {
    fn make(_rng: &mut Rng) -> Self {
        Self
    }
}

impl<T: Make> Make for Option<T> {
    fn make(rng: &mut Rng) -> Self {
        rng.bool().then(|| T::make(rng))
    }
}

impl<T: Make> Make for Box<T> {
    fn make(rng: &mut Rng) -> Self {
        Self::new(T::make(rng))
    }
}

impl<T: Make> Make for Vec<T> {
    fn make(rng: &mut Rng) -> Self {
        (0..rng.usize(..4)).map(|_| T::make(rng)).collect()
    }
}

impl<T: Make, const N: usize> Make for [T; N] {
    fn make(rng: &mut Rng) -> Self {
        std::array::from_fn(|_| T::make(rng))
    }
}

impl<T: Make + Ord> Make for BTreeSet<T> {
    fn make(rng: &mut Rng) -> Self {
        Vec::make(rng).into_iter().collect()
    }
}

impl<K: Make + Ord, V: Make> Make for BTreeMap<K, V> {
    fn make(rng: &mut Rng) -> Self {
        Vec::make(rng).into_iter().collect()
    }
}

macro_rules! tuples {
    ($(($($part:ident),+))+) => {$(
        impl<$($part: Make),+> Make for ($($part,)+) {
            fn make(rng: &mut Rng) -> Self {
                ($($part::make(rng),)+)
            }
        }
    )+};
}

tuples! { (A) (A, B) (A, B, C) (A, B, C, D) }

impl<T: Make, E: Make> Make for Result<T, E> {
    fn make(rng: &mut Rng) -> Self {
        if rng.bool() {
            Ok(T::make(rng))
        } else {
            Err(E::make(rng))
        }
    }
}

impl Make for Duration {
    fn make(rng: &mut Rng) -> Self {
        Self::new(u64::make(rng), rng.u32(..1_000_000_000))
    }
}

impl Make for IpAddr {
    fn make(rng: &mut Rng) -> Self {
        if rng.bool() {
            Self::from(<[u8; 4]>::make(rng))
        } else {
            Self::from(<[u8; 16]>::make(rng))
        }
    }
}

impl Make for NonZeroU16 {
    fn make(rng: &mut Rng) -> Self {
        Self::new(rng.u16(1..)).expect("it is not zero")
    }
}

impl Make for Range<i64> {
    fn make(rng: &mut Rng) -> Self {
        i64::make(rng)..i64::make(rng)
    }
}

impl Make for Raw {
    fn make(rng: &mut Rng) -> Self {
        Self(Vec::make(rng))
    }
}

impl Make for serde_json::Value {
    fn make(rng: &mut Rng) -> Self {
        match rng.u8(..8) {
            0 => Self::Null,
            1 => rng.bool().into(),
            2 => i64::make(rng).into(),
            3 => u64::make(rng).into(),
            4 => F64::finite(rng).0.into(),
            5 => String::make(rng).into(),
            6 => Vec::<Self>::make(rng).into(),
            _ => {
                let entries = Vec::<(String, Self)>::make(rng);
                Self::Object(entries.into_iter().collect())
            }
        }
    }
}
