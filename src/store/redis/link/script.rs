//! A Lua script, as a script and as a function of a library.

use redis::ToSingleRedisArg;

/// A script in the form that the server receives.
#[derive(Debug)]
pub struct Script {
    /// Its name in logs and errors.
    pub name: &'static str,
    parts: Vec<&'static str>,
    text: String,
    hash: String,
    /// The same as a library, with one function.
    library: String,
    function: String,
}

impl Script {
    /// Creates a script from its text below the header. `keys` names the keys that it is called
    /// with, and `text` defines `define`, which returns the script as a function.
    pub(in crate::store::redis) fn new(
        name: &'static str,
        flags: &[&str],
        parts: Vec<&'static str>,
        common: &str,
    ) -> Self {
        let header = match flags {
            [] => "#!lua\n".to_owned(),
            _ => format!("#!lua flags={}\n", flags.join(",")),
        };
        let text = [&header, common, "return define()(KEYS, ARGV)\n"].concat();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        let function = format!("duly_{name}_{}", &hash[..16]);
        let flags: Vec<_> = flags.iter().map(|flag| format!("'{flag}'")).collect();
        let library = format!(
            "#!lua name={function}\n{common}local run\nredis.register_function{{\n  function_name = \
             '{function}', flags = {{ {} }},\n  callback = function(KEYS, ARGV)\n    run = run or \
             define()\n    return run(KEYS, ARGV)\n  end,\n}}\n",
            flags.join(", ")
        );
        Self {
            name,
            parts,
            text,
            hash,
            library,
            function,
        }
    }

    /// Returns the names of the keys that it is called with.
    pub(in crate::store::redis) fn parts(&self) -> &[&'static str] {
        &self.parts
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns its hash on a server.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the text of its library.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// Returns the name of its library, and of the function in it.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Starts a call on these keys, of the function or of the script; arguments follow.
    pub(in crate::store::redis) fn call(
        &self,
        is_function: bool,
        keys: impl ExactSizeIterator<Item = impl ToSingleRedisArg>,
    ) -> redis::Cmd {
        let (command, name) = if is_function {
            ("FCALL", &self.function)
        } else {
            ("EVALSHA", &self.hash)
        };
        let mut call = redis::cmd(command);
        call.arg(name).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}
