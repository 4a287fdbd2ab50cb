//! Parts of a URL: credentials, address, database, percent-encoding.

use super::{Address, Login};
use crate::error::{Error, Result};

pub(super) fn login_of(text: &str) -> Result<Login> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decode(password, "the password")?)),
        None => (text, None),
    };
    let user = decode(user, "the user")?;
    if password.is_none() && !user.is_empty() {
        return Err(Error::invalid(
            "a user in a store's URL needs a password: redis://user:password@host, \
             or redis://:password@host for a password alone",
        ));
    }
    Ok(Login {
        user: (!user.is_empty()).then_some(user),
        password: password.filter(|password| !password.is_empty()),
    })
}

pub(super) fn address(text: &str, default_port: u16) -> Result<Address> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or("none"))),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(Error::invalid("a store's URL has an empty host"));
    }
    // The text is not repeated: it may be a password.
    let stands_in_none = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']');
    if host.contains(stands_in_none) {
        return Err(Error::invalid(
            "a host in a store's URL is a name or an address, an IPv6 address in brackets",
        ));
    }
    // The text in the place of a port may be a password that contains a `@` or a `/`.
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
            Error::invalid(
                "a port in a store's URL is a number from 1 to 65535, and a user or password with \
                 `@`, `/`, `?` or `:` is percent-encoded",
            )
        })?,
    };
    Ok(Address {
        host: host.to_owned(),
        port,
    })
}

pub(super) fn database_of(text: &str) -> Result<i64> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse::<u16>().map_err(|_| {
        Error::invalid("the path of a store's URL is the number of a database, 0 if left out")
    })?;
    Ok(i64::from(number))
}

/// Decodes percent-encoding. The text itself is not in the error: it may be a password.
pub(super) fn decode(text: &str, what: &str) -> Result<String> {
    let wrong = || {
        Error::invalid(format!(
            "{what} in a store's URL is not percent-encoded UTF-8"
        ))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(wrong());
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
