//! Where the server listens: `SELF_BIND` as typed.
//!
//! Resolves nothing and opens nothing. The invariant: what is empty means the loopback address, and what is odd is an error; neither
//! ever widens what the server listens on.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where the server listens unless it is told otherwise.
pub const HOST: &str = "127.0.0.1";

/// The port it listens on unless it is told otherwise.
pub const PORT: u16 = 7777;

/// A host and a port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// An IP address without brackets, or a name.
    pub host: String,
    /// The port; 0 for one that the system picks.
    pub port: u16,
}

impl Bind {
    /// Reads `SELF_BIND`; `None` if it is odd.
    #[must_use]
    pub fn read(text: Option<&OsStr>) -> Option<Bind> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Some(Bind { host: HOST.to_owned(), port: PORT });
        };
        let text = text.to_str()?;
        if text.parse::<Ipv6Addr>().is_ok() {
            return Some(Bind { host: text.to_owned(), port: PORT });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some(_) if text.ends_with(']') => (text, PORT),
            Some((host, port)) => (host, read_port(port)?),
            None => (text, PORT),
        };
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok())?,
            None => Some(host).filter(|host| is_host(host))?,
        };
        (!host.is_empty()).then(|| Bind { host: host.to_owned(), port })
    }
}

fn read_port(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// An IPv4 address of four numbers, or a name: letters, digits, dashes and dots, starting with a letter. Anything else that a system
/// would resolve, `0` or `0x7f.1`, is odd.
fn is_host(text: &str) -> bool {
    let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name || text.parse::<Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<(&str, u16)>) {
        let bind = Bind::read(Some(OsStr::new(text)));
        assert_eq!(bind, expect.map(|(host, port)| Bind { host: host.to_owned(), port }), "{text:?}");
    }

    #[test]
    fn a_host_or_a_host_and_a_port() {
        assert_eq!(Bind::read(None), Some(Bind { host: HOST.to_owned(), port: PORT }));
        check("", Some(("127.0.0.1", 7777)));
        check("127.0.0.1", Some(("127.0.0.1", 7777)));
        check("127.0.0.1:0", Some(("127.0.0.1", 0)));
        check("0.0.0.0:8080", Some(("0.0.0.0", 8080)));
        check("localhost:8080", Some(("localhost", 8080)));
        check("my-host.example", Some(("my-host.example", 7777)));
        check("::1", Some(("::1", 7777)));
        check("[::1]", Some(("::1", 7777)));
        check("[::1]:8080", Some(("::1", 8080)));
        check("::", Some(("::", 7777)));
    }

    #[test]
    fn w10_what_is_odd_never_widens_the_bind() {
        for odd in [
            " ",
            ":",
            ":7777",
            "8080",
            "0",
            "127.1",
            "0x7f000001",
            "127.0.0.1:",
            "127.0.0.1:x",
            "127.0.0.1:65536",
            "127.0.0.1:+80",
            "127.0.0.1:-1",
            "[::1",
            "::1]:80",
            "[x]:80",
            "http://127.0.0.1",
            "127.0.0.1 ",
            "a b",
            "host:80:90",
            "*",
            "*:80",
            "[]:80",
            "a/b",
            "127.0.0.1\n",
            "localhost:0x50",
            "01.2.3.4",
        ] {
            check(odd, None);
        }
    }
}
