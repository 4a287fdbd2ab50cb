//! A serializer around that of a codec: it refuses what is nested too deeply, and notes values that
//! the codec may not give back.

use std::cell::Cell;
use std::fmt;

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// The deepest nesting that the decoders accept.
pub(super) const DEPTH_MAX: u8 = 127;

/// The rules of a codec, and what was noted of a value.
pub(super) struct Notes {
    /// Whether the codec has no sign for a float that is infinite or not a number.
    finite: bool,
    doubtful: Cell<bool>,
}

impl Notes {
    pub(super) fn new(finite: bool) -> Self {
        Self {
            finite,
            doubtful: Cell::new(false),
        }
    }

    /// Serializes a value by `serializer`.
    pub(super) fn serialize<T, S>(&self, value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + ?Sized,
        S: Serializer,
    {
        At::outside(self).value(value).serialize(serializer)
    }

    /// Returns whether the value may come back as another one, or not at all: it has a float that
    /// the codec lacks, or an option in an option.
    pub(super) fn are_doubtful(&self) -> bool {
        self.doubtful.get()
    }
}

/// A place in the value.
#[derive(Clone, Copy)]
struct At<'a> {
    notes: &'a Notes,
    depth: u8,
    /// How many options and newtypes this is the value of, which no codec shows.
    wraps: u8,
    /// Whether this is the value of a `Some`.
    in_some: bool,
}

impl<'a> At<'a> {
    fn outside(notes: &'a Notes) -> Self {
        Self {
            notes,
            depth: 0,
            wraps: 0,
            in_some: false,
        }
    }

    fn value<'v, T: ?Sized>(self, value: &'v T) -> Checked<'a, &'v T> {
        Checked {
            at: self,
            it: value,
        }
    }

    /// Goes into a list, a map or a variant with a value, which nests `levels` deep.
    fn within<E: Error>(self, levels: u8) -> Result<Self, E> {
        let depth = self.depth + levels; // no overflow: at most DEPTH_MAX and 2
        if depth > DEPTH_MAX {
            Err(too_deep())
        } else {
            Ok(Self {
                depth,
                wraps: 0,
                in_some: false,
                ..self
            })
        }
    }

    /// Goes into an option or a newtype.
    fn wrapped<E: Error>(self) -> Result<Self, E> {
        if self.wraps == DEPTH_MAX {
            Err(too_deep())
        } else {
            Ok(Self {
                wraps: self.wraps + 1,
                ..self
            })
        }
    }

    fn note_empty(self) {
        if self.in_some {
            self.notes.doubtful.set(true);
        }
    }

    fn note_float(self, is_finite: bool) {
        if self.notes.finite && !is_finite {
            self.notes.doubtful.set(true);
        }
    }
}

fn too_deep<E: Error>() -> E {
    E::custom(format_args!(
        "it is nested more than {DEPTH_MAX} deep, and a decoder stops there"
    ))
}

/// A value, a serializer, or a part of one, at its place.
struct Checked<'a, S> {
    at: At<'a>,
    it: S,
}

impl<T: Serialize + ?Sized> Serialize for Checked<'_, &T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (at, it) = (self.at, serializer);
        self.it.serialize(Checked { at, it })
    }
}

/// Defines methods that pass their arguments on.
macro_rules! pass {
    ($($method:ident($($arg:ident: $ty:ty),*);)+) => {$(
        fn $method(self, $($arg: $ty),*) -> Result<S::Ok, S::Error> {
            self.it.$method($($arg),*)
        }
    )+};
}

/// Defines methods that open a compound, which nests so many levels deep.
macro_rules! open {
    ($($method:ident($($arg:ident: $ty:ty),*) -> $part:ident: $levels:literal;)+) => {$(
        fn $method(self, $($arg: $ty),*) -> Result<Self::$part, S::Error> {
            let at = self.at.within($levels)?;
            Ok(Checked { at, it: self.it.$method($($arg),*)? })
        }
    )+};
}

impl<'a, S: Serializer> Serializer for Checked<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Checked<'a, S::SerializeSeq>;
    type SerializeTuple = Checked<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Checked<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Checked<'a, S::SerializeTupleVariant>;
    type SerializeMap = Checked<'a, S::SerializeMap>;
    type SerializeStruct = Checked<'a, S::SerializeStruct>;
    type SerializeStructVariant = Checked<'a, S::SerializeStructVariant>;

    pass! {
        serialize_bool(v: bool);
        serialize_i8(v: i8);
        serialize_i16(v: i16);
        serialize_i32(v: i32);
        serialize_i64(v: i64);
        serialize_i128(v: i128);
        serialize_u8(v: u8);
        serialize_u16(v: u16);
        serialize_u32(v: u32);
        serialize_u64(v: u64);
        serialize_u128(v: u128);
        serialize_char(v: char);
        serialize_str(v: &str);
        serialize_bytes(v: &[u8]);
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str);
    }

    open! {
        serialize_seq(len: Option<usize>) -> SerializeSeq: 1;
        serialize_tuple(len: usize) -> SerializeTuple: 1;
        serialize_tuple_struct(name: &'static str, len: usize) -> SerializeTupleStruct: 1;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> SerializeTupleVariant: 2;
        serialize_map(len: Option<usize>) -> SerializeMap: 1;
        serialize_struct(name: &'static str, len: usize) -> SerializeStruct: 1;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> SerializeStructVariant: 2;
    }

    fn serialize_f32(self, v: f32) -> Result<S::Ok, S::Error> {
        self.at.note_float(v.is_finite());
        self.it.serialize_f32(v)
    }

    fn serialize_f64(self, v: f64) -> Result<S::Ok, S::Error> {
        self.at.note_float(v.is_finite());
        self.it.serialize_f64(v)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.at.note_empty();
        self.it.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.at.note_empty();
        self.it.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.at.note_empty();
        self.it.serialize_unit_struct(name)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let at = At {
            in_some: true,
            ..self.at.wrapped()?
        };
        self.it.serialize_some(&at.value(value))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = &self.at.wrapped()?.value(value);
        self.it.serialize_newtype_struct(name, value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = &self.at.within(1)?.value(value);
        self.it
            .serialize_newtype_variant(name, index, variant, value)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.it.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.it.is_human_readable()
    }
}

/// Implements the parts of a compound by its methods.
macro_rules! parts {
    ($($of:ident: $($method:ident($($key:ident: $ty:ty)?)),+;)+) => {$(
        impl<S: $of> $of for Checked<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            $(fn $method<T: Serialize + ?Sized>(
                &mut self,
                $($key: $ty,)?
                value: &T,
            ) -> Result<(), S::Error> {
                self.it.$method($($key,)? &self.at.value(value))
            })+

            fn end(self) -> Result<S::Ok, S::Error> {
                self.it.end()
            }
        }
    )+};
}

parts! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeMap: serialize_key(), serialize_value();
    SerializeStruct: serialize_field(key: &'static str);
    SerializeStructVariant: serialize_field(key: &'static str);
}
