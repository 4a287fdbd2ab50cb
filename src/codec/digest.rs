//! A digest of a value as serde sees it, to tell whether a decoded value is the one that was
//! encoded.
//!
//! Two values of a type have the same digest if the type serializes both by the same calls: the
//! same variants and options, integers of the same width, floats of the same bits. Elements and
//! entries count in any order, as those of a hash map come in another one each time.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Returns the digest of a value; `None` if it does not serialize.
pub(super) fn digest<T: Serialize + ?Sized>(value: &T, human_readable: bool) -> Option<u64> {
    value.serialize(Digest { human_readable }).ok()
}

#[derive(Clone, Copy)]
struct Digest {
    human_readable: bool,
}

/// The error of a value that does not serialize; its text is not needed.
#[derive(Debug)]
struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value does not serialize")
    }
}

impl std::error::Error for Failed {}

impl ser::Error for Failed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Defines methods whose digest is that of their name and arguments.
macro_rules! leaves {
    ($($method:ident($($arg:ident: $ty:ty),*) $(as $bits:expr)?;)+) => {$(
        fn $method(self, $($arg: $ty),*) -> Result<u64, Failed> {
            Ok(hash((stringify!($method), leaves!(@ ($($arg),*) $($bits)?))))
        }
    )+};
    (@ $args:tt) => { $args };
    (@ $args:tt $bits:expr) => { $bits };
}

/// Defines methods that open a compound.
macro_rules! compounds {
    ($($method:ident($($arg:ident: $ty:ty),*) of $kind:expr;)+) => {$(
        fn $method(self, $($arg: $ty),*) -> Result<Compound, Failed> {
            Ok(Compound { digest: self, sum: hash($kind), count: 0, key: 0 })
        }
    )+};
}

impl Serializer for Digest {
    type Ok = u64;
    type Error = Failed;
    type SerializeSeq = Compound;
    type SerializeTuple = Compound;
    type SerializeTupleStruct = Compound;
    type SerializeTupleVariant = Compound;
    type SerializeMap = Compound;
    type SerializeStruct = Compound;
    type SerializeStructVariant = Compound;

    leaves! {
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
        serialize_f32(v: f32) as v.to_bits();
        serialize_f64(v: f64) as v.to_bits();
        serialize_char(v: char);
        serialize_str(v: &str);
        serialize_bytes(v: &[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(_name: &'static str) as ();
        serialize_unit_variant(_name: &'static str, index: u32, variant: &'static str)
            as (index, variant);
    }

    compounds! {
        serialize_seq(_len: Option<usize>) of "seq";
        serialize_tuple(_len: usize) of "tuple";
        serialize_tuple_struct(_name: &'static str, _len: usize) of "tuple struct";
        serialize_tuple_variant(_name: &'static str, index: u32, variant: &'static str, _len: usize)
            of (index, variant);
        serialize_map(_len: Option<usize>) of "map";
        serialize_struct(_name: &'static str, _len: usize) of "struct";
        serialize_struct_variant(_name: &'static str, index: u32, variant: &'static str, _len: usize)
            of (index, variant);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<u64, Failed> {
        Ok(hash(("some", value.serialize(self)?)))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<u64, Failed> {
        Ok(hash(("newtype", value.serialize(self)?)))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<u64, Failed> {
        Ok(hash((index, variant, value.serialize(self)?)))
    }

    fn is_human_readable(&self) -> bool {
        self.human_readable
    }
}

/// The digest of a compound: the sum of those of its parts.
struct Compound {
    digest: Digest,
    sum: u64,
    count: u64,
    /// The digest of the key of a map's entry.
    key: u64,
}

impl Compound {
    fn add<T: Serialize + ?Sized>(&mut self, key: impl Hash, value: &T) -> Result<(), Failed> {
        let part = hash((key, value.serialize(self.digest)?));
        self.sum = self.sum.wrapping_add(part);
        self.count += 1;
        Ok(())
    }

    fn close(self) -> u64 {
        hash((self.sum, self.count))
    }
}

/// Implements compounds whose parts have this key.
macro_rules! compound {
    ($($of:ident: $method:ident($($arg:ident: $ty:ty)?) by $key:expr;)+) => {$(
        impl $of for Compound {
            type Ok = u64;
            type Error = Failed;

            fn $method<T: Serialize + ?Sized>(
                &mut self,
                $($arg: $ty,)?
                value: &T,
            ) -> Result<(), Failed> {
                let key: fn(&Self) -> u64 = $key;
                let key = (key(self), $($arg)?);
                self.add(key, value)
            }

            fn end(self) -> Result<u64, Failed> {
                Ok(self.close())
            }
        }
    )+};
}

compound! {
    SerializeSeq: serialize_element() by |_| 0;
    SerializeTuple: serialize_element() by |at| at.count;
    SerializeTupleStruct: serialize_field() by |at| at.count;
    SerializeTupleVariant: serialize_field() by |at| at.count;
    SerializeStruct: serialize_field(key: &'static str) by |_| 0;
    SerializeStructVariant: serialize_field(key: &'static str) by |_| 0;
}

impl SerializeMap for Compound {
    type Ok = u64;
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        self.key = key.serialize(self.digest)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        self.add(self.key, value)
    }

    fn end(self) -> Result<u64, Failed> {
        Ok(self.close())
    }
}
