//! Types of every shape that serde has, and random values of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::Range;
use std::time::Duration;

use duly::codec::Raw;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

pub(super) use crate::payloads::make::{F32, F64, Make};

/// Defines structs of parts that are made one by one.
macro_rules! structs {
    ($($(#[$attr:meta])* $name:ident { $($(#[$field_attr:meta])* $field:ident: $ty:ty),* $(,)? })+) => {$(
        #[derive(Clone, Debug, Serialize, Deserialize)]
        $(#[$attr])*
        #[allow(dead_code)] // they are compared by what they print
        pub(super) struct $name { $($(#[$field_attr])* $field: $ty,)* }

        impl Make for $name {
            fn make(_rng: &mut Rng) -> Self {
                Self { $($field: <$ty>::make(_rng),)* }
            }
        }
    )+};
}

/// Defines enums whose variants are equally likely.
macro_rules! enums {
    ($($(#[$attr:meta])* $name:ident {
        $($variant:ident $(($($part:ty),+))? $({$($field:ident: $ty:ty),+})?,)+
    })+) => {$(
        #[derive(Clone, Debug, Serialize, Deserialize)]
        $(#[$attr])*
        pub(super) enum $name { $($variant $(($($part),+))? $({$($field: $ty),+})?,)+ }

        impl Make for $name {
            fn make(rng: &mut Rng) -> Self {
                let makes: &[fn(&mut Rng) -> Self] = &[$(|_rng| Self::$variant
                    $(($(<$part>::make(_rng)),+))? $({$($field: <$ty>::make(_rng)),+})?),+];
                makes[rng.usize(..makes.len())](rng)
            }
        }
    )+};
}

structs! {
    Numbers {
        a: i8, b: i16, c: i32, d: i64, e: i128, f: isize,
        g: u8, h: u16, i: u32, j: u64, k: u128, l: usize,
    }
    Texts { a: char, b: String, c: Vec<u8>, d: [u8; 3], e: Raw, f: bool, g: BTreeSet<String> }
    Options { a: Option<Option<u8>>, b: Option<()>, c: Option<Unit>, d: Option<Vec<Option<i8>>>,
        e: Option<Wrapped>, f: Option<PhantomData<u8>>, g: Option<serde_json::Value>,
    }
    Unit {}
    Floats { a: F32, b: F64, c: Option<F64>, d: Vec<F32>, e: (F32, F64) }
    Defaulted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        a: Option<u8>,
        #[serde(rename = "type")]
        b: u8,
        #[serde(alias = "other", default)]
        c: Vec<u8>,
        #[serde(skip)]
        d: (),
        #[serde(with = "twice")]
        e: u32,
    }
    Inner { x: u8, y: Option<String>, z: F64, }
    FlatStruct { a: u8, #[serde(flatten)] inner: Inner, }
    FlatOption { a: u8, #[serde(flatten)] inner: Option<Inner>, }
    FlatTexts { number: u8, #[serde(flatten)] rest: BTreeMap<String, i64>, } // no text is `number`
    FlatNumbers { a: u8, #[serde(flatten)] rest: BTreeMap<u16, i64>, }
    FlatAlone { #[serde(flatten)] rest: BTreeMap<i32, u8>, }
    FlatEnum { a: u8, #[serde(flatten)] kind: Internal, }
    FlatWide { a: u8, #[serde(flatten)] wide: Wide, }
    Wide { v: i128, w: u128, f: F32, }
    NeverWritten { a: u8, #[serde(skip_serializing)] b: u8, }
    OtherNames { #[serde(rename(serialize = "here", deserialize = "there"))] a: u8, }
    DoubleOption {
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        a: Option<Option<u8>>,
    }
    Std { a: Duration, b: IpAddr, c: NonZeroU16, d: Range<i64>, e: Result<u8, String> }
    Keys {
        a: BTreeMap<u64, u8>, b: BTreeMap<i8, F64>, c: BTreeMap<char, ()>, d: BTreeMap<bool, u8>,
        e: BTreeMap<String, Option<u8>>, f: BTreeMap<Name, u8>, g: BTreeMap<i128, u8>,
        h: BTreeMap<Colour, u8>,
    }
}

enums! {
    External { A, B(u8), C(u8, String), D { x: i64, y: Option<u8> }, E(Vec<External>), F(()), }
    #[serde(tag = "t")]
    Internal { A, B(Inner), D { x: i64, y: Option<u8>, z: F32 }, }
    #[serde(tag = "t", content = "c")]
    Adjacent { A, B(u8), C(u8, String), D { x: i64, y: F64 }, E(Option<u8>), }
    #[serde(untagged)]
    Untagged { A(bool), C(u8, String), D { x: i64, y: String }, E(String), F(F64), }
    #[serde(untagged)]
    Overlapping { A(u8), B(u16), C(i64), D(F64), E(Option<u8>), F(()), }
    #[serde(untagged)]
    UntaggedWide { A(i128), B(String), }
    #[serde(untagged)]
    UntaggedKeys { A(BTreeMap<u8, u8>), B(Vec<char>), }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Name(String);

impl Make for Name {
    fn make(rng: &mut Rng) -> Self {
        Self(String::make(rng))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Colour {
    Red,
    Blue,
}

impl Make for Colour {
    fn make(rng: &mut Rng) -> Self {
        if rng.bool() { Self::Red } else { Self::Blue }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct UnitStruct;

impl Make for UnitStruct {
    fn make(_rng: &mut Rng) -> Self {
        Self
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Wrapped(Option<u8>);

impl Make for Wrapped {
    fn make(rng: &mut Rng) -> Self {
        Self(Option::make(rng))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pair(u8, Option<UnitStruct>);

impl Make for Pair {
    fn make(rng: &mut Rng) -> Self {
        Self(u8::make(rng), Option::make(rng))
    }
}

/// Lists, maps, options and variants in each other, some deeper than a decoder goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Deep {
    End,
    New(Box<Self>),
    Tuple(u8, Box<Self>),
    Struct { next: Box<Self> },
    List(Vec<Self>),
    Some(Option<Box<Self>>),
    Map(BTreeMap<u8, Self>),
}

impl Make for Deep {
    fn make(rng: &mut Rng) -> Self {
        let kind = (rng.bool()).then(|| rng.u8(..6)); // the same, or each another
        (0..rng.usize(..150)).fold(Self::End, |deep, _| match kind.unwrap_or(rng.u8(..6)) {
            0 => Self::New(deep.into()),
            1 => Self::Tuple(7, deep.into()),
            2 => Self::Struct { next: deep.into() },
            3 => Self::List(vec![deep]),
            4 => Self::Some(Some(deep.into())),
            _ => Self::Map([(7, deep)].into()),
        })
    }
}

/// A hash map, which has another order each time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Hashed(HashMap<u32, F64>);

impl fmt::Debug for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().collect::<BTreeMap<_, _>>().fmt(f)
    }
}

impl Make for Hashed {
    fn make(rng: &mut Rng) -> Self {
        let entry = |_| (u32::make(rng), F64::finite(rng));
        Self((0..40).map(entry).collect())
    }
}

mod twice {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        (u64::from(*value) * 2).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        Ok((u64::deserialize(from)? / 2) as u32)
    }
}

/// Tells `null` from nothing.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<u8>>, D::Error> {
    Option::deserialize(from).map(Some)
}
