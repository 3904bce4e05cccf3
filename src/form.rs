//! Forms: what a browser sends to a command, and which paths of this server an answer may lead to.
//!
//! Reads bytes into fields in document order, and fields into arguments. Never touches the world. The invariant: an argument is text
//! without NUL, and a path to go back to leads nowhere but here.

/// A field of a form: its name and what was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What was typed, its line ends as a shell would give them.
    pub value: String,
}

/// Why a body gives no arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormFault {
    /// Its type is not that of a form.
    #[error("a command takes the fields of a form, `application/x-www-form-urlencoded`, and not `{0}`")]
    Type(String),
    /// It is a form with files.
    #[error(
        "a command takes no files: `multipart/form-data` is not read here; send the fields as `application/x-www-form-urlencoded`"
    )]
    Multipart,
    /// A field is no text.
    #[error("field {0} is not UTF-8, or holds a NUL")]
    Text(usize),
}

/// Reads the fields of a body in document order; an empty body has none.
///
/// # Errors
/// When the body has another type than that of a form, or a field is no text.
pub fn fields(content_type: Option<&[u8]>, body: &[u8]) -> Result<Vec<Field>, FormFault> {
    let kind = content_type.map(|kind| String::from_utf8_lossy(kind).into_owned()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/x-www-form-urlencoded" => {}
        "" if body.is_empty() => {}
        "multipart/form-data" => return Err(FormFault::Multipart),
        "" => return Err(FormFault::Type("no type".to_owned())),
        _ => return Err(FormFault::Type(essence.chars().take(80).collect())),
    }
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let field = |(at, pair): (usize, &[u8])| {
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(split) => (&pair[..split], &pair[split + 1..]),
            None => (pair, &b""[..]),
        };
        let text = |bytes| decoded(bytes, true).ok_or(FormFault::Text(at + 1));
        // A browser sends every line end as CR LF, whatever was typed.
        Ok(Field { name: text(name)?, value: text(value)?.replace("\r\n", "\n") })
    };
    pairs.enumerate().map(field).collect()
}

/// Decodes `%XX`, and `+` as a blank where `plus` says so; `None` if that is no text, or holds a NUL.
#[must_use]
pub fn decoded(bytes: &[u8], plus: bool) -> Option<String> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let code = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match (first, code.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                rest = &behind[2..];
                continue;
            }
            (b'+', _) if plus => decoded.push(b' '),
            (byte, _) => decoded.push(*byte),
        }
        rest = behind;
    }
    String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))
}

/// Encodes a text for a query or a path; slashes stay.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => encoded.push(char::from(byte)),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// The path and query of a `Referer` that is ours, if one can go back there: a page, and not the answer of a command.
#[must_use]
pub fn back(referer: Option<&[u8]>, host: &str) -> Option<String> {
    let referer = str::from_utf8(referer?).ok()?;
    let rest = referer.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let path = path.split('#').next().unwrap_or_default();
    (authority.eq_ignore_ascii_case(host) && is_page(path)).then(|| path.to_owned())
}

/// Whether a path is one of this server that a browser may be led to.
#[must_use]
pub fn is_page(path: &str) -> bool {
    let is_here = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/run/");
    is_here && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// The key under which an address tells what a run recorded.
const DONE: &str = "done=";

/// A path to go back to, without what it told of an earlier run, and with the number of an event that a run recorded.
#[must_use]
pub fn returning(path: &str, done: Option<u64>) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with(DONE)).map(str::to_owned);
    let pairs: Vec<_> = kept.chain(done.map(|seq| format!("{DONE}{seq}"))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// The number of the event that a run recorded, as an address tells it.
#[must_use]
pub fn recorded(query: Option<&str>) -> Option<u64> {
    query?.split('&').find_map(|pair| pair.strip_prefix(DONE))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &[u8], expect: &[(&str, &str)]) {
        let found = fields(Some(b"application/x-www-form-urlencoded; charset=UTF-8"), body).unwrap();
        let found: Vec<_> = found.iter().map(|field| (&*field.name, &*field.value)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn fields_keep_the_order_of_the_document() {
        check(b"", &[]);
        check(b"z=1&a=2&z=3", &[("z", "1"), ("a", "2"), ("z", "3")]);
        check(b"text=a+b%2Bc%26&empty=&bare", &[("text", "a b+c&"), ("empty", ""), ("bare", "")]);
        check(b"&&a=b=c&", &[("a", "b=c")]);
        check("t=%C3%A9%f0%9f%98%80é".as_bytes(), &[("t", "é😀é")]);
        check(b"t=one%0D%0Atwo%0Dthree%0A", &[("t", "one\ntwo\rthree\n")]);
        check(b"t=%&u=%4&v=%zz&w=%+1", &[("t", "%"), ("u", "%4"), ("v", "%zz"), ("w", "% 1")]);
    }

    #[test]
    fn what_is_no_form_or_no_text_is_refused_in_words() {
        let form = Some(&b"application/x-www-form-urlencoded"[..]);
        assert_eq!(fields(form, b"a=1&b=%FF"), Err(FormFault::Text(2)));
        assert_eq!(fields(form, b"a=%00"), Err(FormFault::Text(1)));
        assert_eq!(fields(None, b""), Ok(vec![]));
        assert_eq!(fields(None, b"a=1"), Err(FormFault::Type("no type".into())));
        assert_eq!(fields(Some(b"text/plain"), b""), Err(FormFault::Type("text/plain".into())));
        assert_eq!(fields(Some(b"application/json"), b"{}"), Err(FormFault::Type("application/json".into())));
        assert_eq!(fields(Some(b"Multipart/Form-Data; boundary=x"), b"--x--"), Err(FormFault::Multipart));
    }

    #[test]
    fn what_was_encoded_is_decoded_once() {
        for text in ["", "a/b", "a b?#%:é&+=", "javascript:x", "..%2f"] {
            assert_eq!(decoded(encoded(text).as_bytes(), false).as_deref(), Some(text));
        }
        assert_eq!(decoded(b"%252e", false).as_deref(), Some("%2e"));
        assert_eq!(decoded(b"a+b", false).as_deref(), Some("a+b"));
    }

    #[test]
    fn a_way_back_tells_of_the_last_run_alone() {
        for (path, done, expect) in [
            ("/notes", Some(12), "/notes?done=12"),
            ("/notes?x=1", Some(12), "/notes?x=1&done=12"),
            ("/notes?done=3&x=1&done=4", Some(12), "/notes?x=1&done=12"),
            ("/notes?done=3", None, "/notes"),
            ("/?", None, "/"),
            ("/?undone=1", None, "/?undone=1"),
        ] {
            assert_eq!(returning(path, done), expect, "{path}");
        }
        for (query, expect) in [
            (Some("x=1&done=12"), Some(12)),
            (Some("done="), None),
            (Some("done=-1"), None),
            (Some("undone=1"), None),
            (None, None),
        ] {
            assert_eq!(recorded(query), expect, "{query:?}");
        }
    }

    #[test]
    fn w2_an_answer_leads_back_to_a_page_of_ours_only() {
        let host = "127.0.0.1:7777";
        for (referer, expect) in [
            ("http://127.0.0.1:7777/notes?x=1#top", Some("/notes?x=1")),
            ("http://127.0.0.1:7777/", Some("/")),
            ("http://127.0.0.1:7777", None),
            ("https://127.0.0.1:7777/", None),
            ("http://127.0.0.1:7778/", None),
            ("http://evil.example/", None),
            ("http://127.0.0.1:7777@evil.example/", None),
            ("http://127.0.0.1:7777//evil.example", None),
            ("http://127.0.0.1:7777/\\evil.example", None),
            ("http://127.0.0.1:7777/a b", None),
            ("http://127.0.0.1:7777/run/note", None),
            ("/notes", None),
            ("", None),
        ] {
            assert_eq!(back(Some(referer.as_bytes()), host).as_deref(), expect, "{referer}");
        }
        assert_eq!(back(None, host), None);
        assert_eq!(back(Some(b"http://127.0.0.1:7777/\xff"), host), None);
        assert!(!is_page("/a\r\nset-cookie:x") && !is_page("") && !is_page("a"));
    }
}
