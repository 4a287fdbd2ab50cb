//! The table of a script: its arguments, what follows them, and the fields of its reply.
//!
//! A row of the table is a field of a Rust type and a name in Lua, so neither side counts. In Lua
//!
//! - `ARGV.limit` is the argument `limit`;
//! - `ARGV.rest` is the place of the first value after the arguments, where rows of `each` follow,
//!   `ARGV.width` how many values a row has, and `ARGV.body[at]` the value `body` of the row at `at`;
//! - `REPLY { ready = 1, .. }` is the reply, in any order, and `REPLY.ready` the place of a field;
//! - `RUST.BATCH_MAX` is a constant of [`source`](super::source).

use redis::Cmd;

use crate::error::Result;
use crate::event::EventId;
use crate::record::NodeId;
use crate::store::redis::link::script::Script;
use crate::store::redis::script::names::Head;
use crate::store::redis::script::reader::ReplyReader;
use crate::time::Timestamp;

/// The arguments of a script, in order.
pub(in crate::store::redis) trait Arguments {
    /// What a call has before these.
    const HEAD: Head;

    /// Returns the script that has them.
    fn script() -> &'static Script;

    /// Adds them to a call.
    fn add_to(self, command: &mut Cmd);
}

/// A value that is one argument.
pub(in crate::store::redis) trait Argument {
    fn add_to(self, command: &mut Cmd);
}

macro_rules! plain_arguments {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            fn add_to(self, command: &mut Cmd) {
                command.arg(self);
            }
        })*
    };
}

plain_arguments!(
    u8,
    u32,
    u64,
    usize,
    u128,
    &[u8],
    &str,
    String,
    Vec<u8>,
    &Vec<u8>
);

impl Argument for bool {
    fn add_to(self, command: &mut Cmd) {
        command.arg(u8::from(self));
    }
}

impl Argument for NodeId {
    fn add_to(self, command: &mut Cmd) {
        command.arg(&self.0.to_be_bytes());
    }
}

impl Argument for EventId {
    fn add_to(self, command: &mut Cmd) {
        command.arg(&self.to_bytes());
    }
}

/// "" without a value.
impl<T: Argument> Argument for Option<T> {
    fn add_to(self, command: &mut Cmd) {
        match self {
            Some(value) => value.add_to(command),
            None => "".add_to(command),
        }
    }
}

/// A number, encoded in eight bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Encoded(pub(in crate::store::redis) u64);

impl Argument for Encoded {
    fn add_to(self, command: &mut Cmd) {
        command.arg(&self.0.to_be_bytes());
    }
}

/// A text that may be missing: "", or "=" and the text.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Text<'a>(pub(in crate::store::redis) Option<&'a str>);

impl Argument for Text<'_> {
    fn add_to(self, command: &mut Cmd) {
        self.0.map(|text| format!("={text}")).add_to(command);
    }
}

/// A row of values behind the arguments.
pub(in crate::store::redis) trait Row {
    fn add_to(self, command: &mut Cmd);
}

/// A value that is one field of a reply.
pub(in crate::store::redis) trait Field: Sized {
    fn read(parts: &mut ReplyReader) -> Result<Self>;
}

macro_rules! fields {
    ($($type:ty = $read:ident),*) => {
        $(impl Field for $type {
            fn read(parts: &mut ReplyReader) -> Result<Self> {
                parts.$read()
            }
        })*
    };
}

fields!(
    u64 = number, usize = count, bool = is_so, Option<Timestamp> = time, Vec<u8> = bytes,
    Option<Vec<u8>> = optional, Vec<bool> = flags, EventId = id, NodeId = node, ReplyReader = parts
);

/// Declares a script: its name, what a server may do with it, its head, its libraries; its arguments,
/// its rows and its reply.
macro_rules! script {
    (
        $(#[$doc:meta])*
        $name:ident = $file:literal, $flags:ident, $head:ident, [$($library:literal),*] $(from $source:expr)?;
        $arguments:ident $(<$life:lifetime>)? {
            $($(#[$of_argument:meta])* $argument:ident: $type:ty,)*
        }
        $(each $row:ident $(<$of_row:lifetime>)? {
            $($(#[$of_column:meta])* $column:ident: $of:ty,)*
        })*
        reply $reply:ident {
            $($(#[$of_field:meta])* $field:ident: $is:ty,)*
        }
    ) => {
        $(#[$doc])*
        pub(in crate::store::redis) static $name: ::std::sync::LazyLock<
            $crate::store::redis::link::script::Script
        > = ::std::sync::LazyLock::new(|| {
            $crate::store::redis::script::source::assemble(
                $file,
                $crate::store::redis::script::source::$flags,
                &[$($crate::store::redis::script::source::lua!($library)),*],
                $crate::store::redis::script::table::source!($file $(, $source)?),
                &$arguments::NAMES,
            )
        });

        $(#[$doc])*
        #[derive(Debug)]
        pub(in crate::store::redis) struct $arguments $(<$life>)? {
            $($(#[$of_argument])* pub(in crate::store::redis) $argument: $type,)*
        }

        impl $(<$life>)? $arguments $(<$life>)? {
            pub(in crate::store::redis) const NAMES: $crate::store::redis::script::names::Names =
                $crate::store::redis::script::names::Names {
                    head: $crate::store::redis::script::names::Head::$head,
                    arguments: &[$(stringify!($argument)),*],
                    rows: &[$(&[$(stringify!($column)),*]),*],
                    reply: $reply::FIELDS,
                };
        }

        impl $(<$life>)? $crate::store::redis::script::table::Arguments for $arguments $(<$life>)? {
            const HEAD: $crate::store::redis::script::names::Head = Self::NAMES.head;

            fn script() -> &'static $crate::store::redis::link::script::Script {
                &$name
            }

            #[allow(unused_variables)] // some scripts have none
            fn add_to(self, command: &mut ::redis::Cmd) {
                $($crate::store::redis::script::table::Argument::add_to(self.$argument, command);)*
            }
        }

        $(
            #[derive(Debug)]
            pub(in crate::store::redis) struct $row $(<$of_row>)? {
                $($(#[$of_column])* pub(in crate::store::redis) $column: $of,)*
            }

            impl $(<$of_row>)? $crate::store::redis::script::table::Row for $row $(<$of_row>)? {
                fn add_to(self, command: &mut ::redis::Cmd) {
                    $($crate::store::redis::script::table::Argument::add_to(self.$column, command);)*
                }
            }
        )*

        #[derive(Debug)]
        #[allow(dead_code)] // a reply may say more than its reader needs
        pub(in crate::store::redis) struct $reply {
            $($(#[$of_field])* pub(in crate::store::redis) $field: $is,)*
        }

        #[allow(dead_code)]
        impl $reply {
            pub(in crate::store::redis) const FIELDS: &'static [&'static str] =
                &[$(stringify!($field)),*];

            #[allow(unused_variables)]
            pub(in crate::store::redis) fn read(
                parts: &mut $crate::store::redis::script::reader::ReplyReader,
            ) -> $crate::error::Result<Self> {
                Ok(Self {
                    $($field: $crate::store::redis::script::table::Field::read(parts)?,)*
                })
            }
        }
    };
}

/// The text of a script: of its file, unless there is another source.
macro_rules! source {
    ($file:expr) => {
        $crate::store::redis::script::source::lua!($file)
    };
    ($file:expr, $source:expr) => {
        $source
    };
}

pub(in crate::store::redis) use {script, source};
