//! The gate: which requests the local server lets in, decided before anything is routed.
//!
//! A page of another origin, a name that was rebound to this machine and a link from elsewhere are what it is for: it judges names
//! and headers and nothing else. Never touches the world. The invariant: what passes came by a name this server is bound to, from no
//! foreign page, and with the token where there is one.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// What every answer bears, whatever it is.
pub const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// What a token is compared under.
const TOKEN_LABEL: &[u8] = b"self.token.v1";

/// The secret that a request has to show.
pub struct Token(Zeroizing<String>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Makes a token of random bytes.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Token {
        Token(Zeroizing::new(hex::encode(random)))
    }

    /// Its text, for the link that is printed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a text is the token; takes the same time wherever they differ.
    #[must_use]
    fn is(&self, shown: &[u8]) -> bool {
        let mac = |key: &[u8]| Hmac::<Sha256>::new_from_slice(key).map(|mac| mac.chain_update(TOKEN_LABEL));
        let (Ok(own), Ok(shown)) = (mac(self.0.as_bytes()), mac(shown)) else { return false };
        shown.verify(&own.finalize().into_bytes()).is_ok()
    }
}

/// What the server is bound to.
#[derive(Debug)]
pub struct Gate {
    /// Its names, in lower case and without the port.
    names: BTreeSet<String>,
    /// Whether it listens on every address: then any IP literal names it.
    is_wildcard: bool,
    port: u16,
    token: Option<Token>,
}

/// A request, as far as the gate looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Knock<'k> {
    /// Its method.
    pub method: &'k str,
    /// The authority, if its target names one.
    pub authority: Option<&'k str>,
    /// The path of its target.
    pub path: &'k str,
    /// The query of its target.
    pub query: Option<&'k str>,
    /// Its headers, the names in lower case.
    pub headers: &'k [(&'k str, &'k [u8])],
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is let in.
    Pass,
    /// The link with the token becomes a cookie: 303 to `/`, with this `Set-Cookie`.
    Swap(String),
    /// It is not let in, with this status and these words.
    Refuse(u16, &'static str),
}

impl<'k> Knock<'k> {
    fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'k [u8]> + use<'k, 'n> {
        self.headers.iter().filter(move |(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// The value of a header that stands there once.
    fn only(&self, name: &str) -> Option<&'k [u8]> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }
}

impl Gate {
    /// The gate of a server that listens on this address and port; `name` is what `SELF_BIND` called it, `machine` this machine's
    /// host name.
    #[must_use]
    pub fn new(address: IpAddr, port: u16, name: &str, machine: Option<&str>, token: Option<Token>) -> Gate {
        let mut names: BTreeSet<String> = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned).into();
        names.insert(host_of(address));
        names.insert(name.parse().map_or_else(|_| name.to_ascii_lowercase(), host_of));
        let is_wildcard = address.is_unspecified();
        names.extend(machine.filter(|_| is_wildcard).map(str::to_ascii_lowercase));
        Gate { names, is_wildcard, port, token }
    }

    /// The name of the cookie that holds the token: cookies do not tell ports apart.
    fn cookie(&self) -> String {
        format!("self-token-{}", self.port)
    }

    /// Judges a request.
    #[must_use]
    pub fn judge(&self, knock: &Knock<'_>) -> Verdict {
        let Some(host) = knock.only("host").filter(|host| self.is_ours(host)) else {
            return Verdict::Refuse(421, "this server goes by another name, or none was given");
        };
        if knock.authority.is_some_and(|authority| !authority.as_bytes().eq_ignore_ascii_case(host)) {
            return Verdict::Refuse(421, "the target names another server than the Host header");
        }
        if !["GET", "HEAD", "POST"].contains(&knock.method) {
            return Verdict::Refuse(405, "only GET, HEAD and POST are answered here");
        }
        let is_own = |origin: &[u8]| {
            let rest = origin.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"http://")).and(origin.get(7..));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
        };
        if !knock.all("origin").all(is_own) {
            return Verdict::Refuse(403, "a page of another origin may not do this");
        }
        let is_top_level = knock.method == "GET"
            && knock.only("sec-fetch-mode").is_some_and(|mode| mode == b"navigate")
            && knock.only("sec-fetch-dest").is_some_and(|dest| dest == b"document");
        let is_near = |site: &[u8]| site == b"same-origin" || site == b"none";
        if !knock.all("sec-fetch-site").all(|site| is_near(site) || is_top_level) {
            return Verdict::Refuse(403, "a page of another site may not do this");
        }
        self.admit(knock)
    }

    /// Asks for the token, where there is one.
    fn admit(&self, knock: &Knock<'_>) -> Verdict {
        let Some(token) = &self.token else { return Verdict::Pass };
        let shown = knock.query.and_then(|query| query.strip_prefix("t="));
        if let Some(shown) = shown.filter(|_| knock.path == "/" && knock.method == "GET") {
            return match token.is(shown.as_bytes()) {
                true => Verdict::Swap(format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie(), token.text())),
                false => {
                    Verdict::Refuse(401, "this link is of another start of the server; self serve prints a new one each time")
                }
            };
        }
        let name = self.cookie();
        let mut cookies = knock.all("cookie").flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
        let by_cookie = cookies.any(|pair| {
            let value = pair.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            value.is_some_and(|value| token.is(value))
        });
        let bearer = knock.only("authorization").and_then(|value| {
            let scheme = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
            scheme.and(value.get(7..)).map(<[u8]>::trim_ascii)
        });
        if by_cookie || bearer.is_some_and(|shown| token.is(shown)) {
            return Verdict::Pass;
        }
        Verdict::Refuse(401, "open the link that self serve printed, or send its token: Authorization: Bearer <token>")
    }

    /// Whether the value of a `Host` header names this server, its port included.
    fn is_ours(&self, host: &[u8]) -> bool {
        let Ok(host) = str::from_utf8(host) else { return false };
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        port == self.port.to_string() && (self.names.contains(&name.to_ascii_lowercase()) || self.is_wildcard && is_literal(name))
    }
}

/// An address as it stands in front of a port.
#[must_use]
pub fn host_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn is_literal(name: &str) -> bool {
    match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok()),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: (&str, &[u8]) = ("host", b"127.0.0.1:7777");

    fn gate(address: &str, name: &str, token: bool) -> Gate {
        Gate::new(address.parse().unwrap(), 7777, name, Some("Box"), token.then(|| Token::new([7; 32])))
    }

    fn judge(gate: &Gate, method: &str, target: &str, headers: &[(&str, &[u8])]) -> u16 {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        match gate.judge(&Knock { method, authority: None, path, query, headers }) {
            Verdict::Pass => 200,
            Verdict::Swap(_) => 303,
            Verdict::Refuse(status, _) => status,
        }
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], method: &str, expect: u16) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        assert_eq!(judge(&gate("127.0.0.1", "127.0.0.1", false), method, "/notes", &headers), expect, "{method} {headers:?}");
    }

    #[test]
    fn w1_only_by_a_name_it_is_bound_to_and_once_and_with_its_port() {
        for ours in ["127.0.0.1:7777", "localhost:7777", "LocalHost:7777", "[::1]:7777"] {
            check(&[("host", ours)], "GET", 200);
        }
        for foreign in [
            "",
            "evil.example:7777",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:80",
            "127.0.0.1:07777",
            "127.0.0.1:7777:7777",
            "127.0.0.1.evil.example:7777",
            "evil.example@127.0.0.1:7777",
            "localhost.:7777",
            "x localhost:7777",
            "127.1:7777",
            "127.0.0.2:7777",
            "0.0.0.0:7777",
            "[::]:7777",
            "::1:7777",
            "[::1%eth0]:7777",
            "box:7777",
            "127.0.0.1:7777 ",
            "127.0.0.1:+7777",
        ] {
            check(&[("host", foreign)], "GET", 421);
        }
        check(&[], "GET", 421);
        check(&[("host", "127.0.0.1:7777"), ("host", "127.0.0.1:7777")], "GET", 421);
        check(&[("host", "127.0.0.1:7777"), ("host", "evil.example")], "GET", 421);
        assert_eq!(judge(&gate("127.0.0.1", "127.0.0.1", false), "GET", "/", &[("host", b"127.0.0.1:7777\xff")]), 421);
    }

    #[test]
    fn w1_a_target_that_names_a_server_names_this_one() {
        let gate = gate("127.0.0.1", "127.0.0.1", false);
        for (authority, expect) in [("127.0.0.1:7777", true), ("evil.example", false), ("localhost:7777", false)] {
            let knock = Knock { method: "GET", authority: Some(authority), path: "/", query: None, headers: &[OURS] };
            assert_eq!(gate.judge(&knock) == Verdict::Pass, expect, "{authority}");
        }
    }

    #[test]
    fn w1_a_wildcard_bind_goes_by_any_address_and_the_machines_name() {
        let gate = gate("0.0.0.0", "0.0.0.0", false);
        for (host, expect) in [
            ("10.1.2.3:7777", 200),
            ("[fe80::1]:7777", 200),
            ("box:7777", 200),
            ("0.0.0.0:7777", 200),
            ("evil.example:7777", 421),
            ("10.1.2.3:80", 421),
            ("10.1.2:7777", 421),
        ] {
            assert_eq!(judge(&gate, "GET", "/", &[("host", host.as_bytes())]), expect, "{host}");
        }
        let named = self::gate("10.1.2.3", "Home.example", false);
        for (host, expect) in [("home.EXAMPLE:7777", 200), ("10.1.2.3:7777", 200), ("10.1.2.4:7777", 421), ("box:7777", 421)] {
            assert_eq!(judge(&named, "GET", "/", &[("host", host.as_bytes())]), expect, "{host}");
        }
    }

    #[test]
    fn other_methods_are_not_answered() {
        for method in ["GET", "HEAD", "POST"] {
            check(&[("host", "127.0.0.1:7777")], method, 200);
        }
        for method in ["PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PATCH", "get", "PROPFIND"] {
            check(&[("host", "127.0.0.1:7777")], method, 405);
        }
    }

    #[test]
    fn w2_a_page_of_another_origin_is_refused() {
        let host = ("host", "127.0.0.1:7777");
        for (origin, expect) in [
            ("http://127.0.0.1:7777", 200),
            ("HTTP://127.0.0.1:7777", 200),
            ("https://127.0.0.1:7777", 403),
            ("http://localhost:7777", 403),
            ("http://127.0.0.1:7778", 403),
            ("http://127.0.0.1", 403),
            ("http://127.0.0.1:7777.evil.example", 403),
            ("http://127.0.0.1:7777/", 403),
            ("http://evil.example", 403),
            ("null", 403),
            ("", 403),
        ] {
            for method in ["GET", "POST"] {
                check(&[host, ("origin", origin)], method, expect);
            }
        }
        check(&[host, ("origin", "http://127.0.0.1:7777"), ("origin", "http://evil.example")], "POST", 403);
    }

    #[test]
    fn w2_another_site_may_only_lead_here() {
        let host = ("host", "127.0.0.1:7777");
        for (site, expect) in
            [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("", 403), ("x", 403)]
        {
            check(&[host, ("sec-fetch-site", site)], "POST", expect);
            check(&[host, ("sec-fetch-site", site)], "GET", expect);
            let leads = [host, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            check(&leads, "GET", 200);
            check(&leads, "POST", expect);
            let embeds = [host, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
            check(&embeds, "GET", expect);
        }
    }

    #[test]
    fn w10_with_a_token_only_who_shows_it_gets_in() {
        let gate = gate("0.0.0.0", "0.0.0.0", true);
        let right = "07".repeat(32);
        let wrong = "08".repeat(32);
        let of = |name: &'static str, value: String| (name, value);
        for (header, expect) in [
            (of("x-nothing", String::new()), 401),
            (of("authorization", format!("Bearer {right}")), 200),
            (of("authorization", format!("bearer {right}")), 200),
            (of("authorization", format!("Bearer {wrong}")), 401),
            (of("authorization", format!("Basic {right}")), 401),
            (of("authorization", "Bearer ".into()), 401),
            (of("cookie", format!("a=b; self-token-7777={right}; c=d")), 200),
            (of("cookie", format!("self-token-7777={wrong}")), 401),
            (of("cookie", format!("self-token-7778={right}")), 401),
            (of("cookie", format!("xself-token-7777={right}")), 401),
        ] {
            assert_eq!(judge(&gate, "GET", "/x", &[OURS, (header.0, header.1.as_bytes())]), expect, "{header:?}");
        }
        for (method, target, expect) in [
            ("GET", format!("/?t={right}"), 303),
            ("GET", format!("/?t={wrong}"), 401),
            ("GET", "/?t=".to_owned(), 401),
            ("POST", format!("/?t={right}"), 401),
            ("GET", format!("/x?t={right}"), 401),
            ("GET", format!("/?t={right}&x"), 401),
        ] {
            assert_eq!(judge(&gate, method, &target, &[OURS]), expect, "{method} {target}");
        }
        let knock = Knock { method: "GET", authority: None, path: "/", query: Some(&format!("t={right}")), headers: &[OURS] };
        let cookie = format!("self-token-7777={right}; Path=/; HttpOnly; SameSite=Strict");
        assert_eq!(gate.judge(&knock), Verdict::Swap(cookie));
        assert!(!format!("{gate:?}").contains(&right));
    }
}
