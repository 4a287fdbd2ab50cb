//! A certificate for a server on this machine, and the authority that signed it.

use std::path::Path;
use std::process::Command;

use super::home::output;

/// Writes `ca.crt`, `server.crt` and `server.key` into the folder; good for `localhost` and
/// 127.0.0.1.
pub(crate) fn write(folder: &Path) {
    let openssl = |arguments: &[&str]| {
        output(Command::new("openssl").args(arguments).current_dir(folder));
    };
    let new = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ];
    let authority = [
        "-subj",
        "/CN=duly tests",
        "-days",
        "2",
        "-keyout",
        "ca.key",
        "-out",
        "ca.crt",
    ];
    openssl(&[&new[..], &authority[..]].concat());
    let server = [
        "-subj",
        "/CN=localhost",
        "-days",
        "2",
        "-keyout",
        "server.key",
        "-out",
        "server.crt",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ];
    openssl(&[&new[..], &server[..]].concat());
}
