//! Capabilities: their kinds, names, declarations and needs.
//!
//! A string becomes a path only as a [`CapabilityName`]. Never touches the disk: whether a need's path leads into the home is
//! judged where paths are resolved. The invariant: a name has no segment that could climb, hide or collide in a directory tree.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::record::{object, string};

/// The longest segment of a name, in bytes.
pub const SEGMENT_BYTES_MAX: usize = 64;

/// The most segments of a name.
pub const SEGMENTS_MAX: usize = 8;

/// What a capability is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A script that emits events.
    Command,
    /// A script that renders HTML.
    Projector,
}

impl Kind {
    /// Reads `command` or `projector`.
    #[must_use]
    pub fn read(text: &str) -> Option<Kind> {
        match text {
            "command" => Some(Kind::Command),
            "projector" => Some(Kind::Projector),
            _ => None,
        }
    }

    /// The kind's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Command => "command",
            Kind::Projector => "projector",
        }
    }
}

/// A capability's name: slash-separated segments of `[a-z0-9][a-z0-9_-]{0,63}`, at most eight, none of them `run`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityName(String);

impl CapabilityName {
    /// Takes a name for a new declaration, or says what is wrong with it.
    pub fn new(kind: Kind, name: &str) -> Result<CapabilityName, DeclarationFault> {
        let bad = |why| Err(DeclarationFault::Name { name: excerpt(name), why });
        let segments: Vec<&str> = name.split('/').collect();
        if segments.len() > SEGMENTS_MAX {
            return bad("it has more than 8 segments");
        }
        for segment in segments {
            let first = segment.as_bytes().first();
            if !first.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
                return bad("each segment starts with a-z or 0-9");
            }
            if !segment.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-') {
                return bad("a segment holds only a-z, 0-9, _ and -");
            }
            if segment.len() > SEGMENT_BYTES_MAX {
                return bad("a segment has at most 64 characters");
            }
            if segment == "run" {
                return bad("no segment is `run`");
            }
        }
        if kind == Kind::Projector && matches!(name, "kernel" | "brief" | "events") {
            return bad("a projector of that name would hide one of the kernel's own pages");
        }
        Ok(CapabilityName(name.to_owned()))
    }

    /// Takes a name by the older program's rule: segments not empty and not starting with a dot, no backslash, not absolute.
    /// Only for capabilities whose older receipt verifies.
    #[must_use]
    pub fn inherited(name: &str) -> Option<CapabilityName> {
        let safe = |segment: &str| !segment.is_empty() && !segment.starts_with('.') && !segment.contains(['\\', '\0']);
        name.split('/').all(safe).then(|| CapabilityName(name.to_owned()))
    }

    /// The name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A capability, as the log speaks of it: its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// Command or projector.
    pub kind: Kind,
    /// Its name.
    pub name: CapabilityName,
}

impl fmt::Display for Capability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.kind.word(), self.name.as_str())
    }
}

/// What a command may touch beyond the default grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Read this path; absolute, or `~/…`.
    Read(String),
    /// Write this folder or existing file; absolute, or `~/…`.
    Write(String),
    /// Read each argument that names an existing regular file.
    ReadArgs,
    /// Use the network.
    Net,
}

impl Need {
    /// Reads one need as it is spelled in a declaration.
    pub fn read(text: &str) -> Result<Need, DeclarationFault> {
        let bad = |why| Err(DeclarationFault::Need { need: excerpt(text), why });
        let (make, path): (fn(String) -> Need, &str) = match text.split_once(':') {
            _ if text == "net" => return Ok(Need::Net),
            _ if text == "read:args" => return Ok(Need::ReadArgs),
            Some(("read", path)) => (Need::Read, path),
            Some(("write", path)) => (Need::Write, path),
            _ => return bad("a need is `read:<path>`, `write:<path>`, `read:args` or `net`"),
        };
        if !path.starts_with('/') && !path.starts_with("~/") {
            return bad("its path is absolute or starts with `~/`");
        }
        if path.contains('\0') {
            return bad("its path holds a NUL");
        }
        Ok(make(path.to_owned()))
    }
}

impl Need {
    /// What it lets a command do, in words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Need::Read(path) => format!("read {path}"),
            Need::Write(path) => format!("write {path}"),
            Need::ReadArgs => "read the files named in its arguments".to_owned(),
            Need::Net => "use the network".to_owned(),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Read(path) => write!(out, "read:{path}"),
            Need::Write(path) => write!(out, "write:{path}"),
            Need::ReadArgs => out.write_str("read:args"),
            Need::Net => out.write_str("net"),
        }
    }
}

/// The announcement of a capability.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// What is announced.
    pub capability: Capability,
    /// What it is for, in words; empty if it does not say.
    pub description: String,
    /// A command's parameters, name and type word, in the order of its arguments; empty if it has none or they have an odd shape.
    pub params: Vec<(String, String)>,
    /// The event a command emits, if it says.
    pub event: Option<Emits>,
    /// What a command may touch.
    pub needs: Vec<Need>,
    /// The event names a projector reads; empty means all.
    pub consumes: Vec<String>,
    /// How many of the newest events of each consumed name a projector is fed; `None` means all.
    pub last: Option<u64>,
}

/// The event that a command's declaration promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emits {
    /// The event's name.
    pub name: String,
    /// Its fields, name and type word, in order of name.
    pub fields: BTreeMap<String, String>,
}

/// Why a payload declares nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationFault {
    /// It has no name.
    #[error("a declaration needs an object with a string `name`")]
    Nameless,
    /// Its name is not of the grammar.
    #[error("`{name}` is no name for a capability: {why}")]
    Name {
        /// The name, cut.
        name: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// A need is misspelled.
    #[error("`{need}` is no need: {why}")]
    Need {
        /// The need, cut.
        need: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// `needs` has another shape than a list of strings.
    #[error("`needs` is a list of strings")]
    NeedsShape,
    /// A projector asks for needs.
    #[error("a projector has no needs")]
    ProjectorNeeds,
    /// A key `payload`, which would make the line in a prompt read as an event.
    #[error("a declaration has no key `payload`")]
    PayloadKey,
    /// `last` is no number of events.
    #[error("`last` is a whole number of at least 1")]
    Last,
}

/// An argument of a command as it is typed: `<text>`, or `[note]` where its type word says that it is optional. `shown` makes its
/// name safe for where it is to stand.
#[must_use]
pub fn argument(name: &str, type_word: &str, shown: impl Fn(&str) -> String) -> String {
    if is_optional(type_word) { format!("[{}]", shown(name)) } else { format!("<{}>", shown(name)) }
}

/// Whether an argument may be left out: its type word says `optional`.
#[must_use]
pub fn is_optional(type_word: &str) -> bool {
    type_word.split(|char: char| !char.is_alphanumeric()).any(|word| word == "optional")
}

impl Declaration {
    /// Reads a declaration's payload. Unknown keys are ignored, odd shapes of descriptions, params and fields count as left out.
    pub fn read(kind: Kind, payload: &RawValue) -> Result<Declaration, DeclarationFault> {
        Declaration::read_named(payload, kind, |name| CapabilityName::new(kind, name))
    }

    /// Reads the declaration of a capability that an older receipt installed, whose name may be of the older rule.
    #[must_use]
    pub fn inherited(kind: Kind, payload: &RawValue) -> Option<Declaration> {
        let name = |name: &str| CapabilityName::inherited(name).ok_or(DeclarationFault::Nameless);
        Declaration::read_named(payload, kind, name).ok()
    }

    fn read_named(
        payload: &RawValue,
        kind: Kind,
        take: impl Fn(&str) -> Result<CapabilityName, DeclarationFault>,
    ) -> Result<Declaration, DeclarationFault> {
        let pairs = object(payload.get()).ok_or(DeclarationFault::Nameless)?;
        let value = |key: &str| pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value);
        if value("payload").is_some() {
            return Err(DeclarationFault::PayloadKey);
        }
        let name = value("name").and_then(string).ok_or(DeclarationFault::Nameless)?;
        let name = take(name.trim())?;
        let needs = value("needs").map_or(Ok(Vec::new()), needs)?;
        if kind == Kind::Projector && !needs.is_empty() {
            return Err(DeclarationFault::ProjectorNeeds);
        }
        let last = match value("last").map(RawValue::get) {
            None | Some("null") => None,
            Some(text) => Some(text.parse().ok().filter(|last| *last >= 1).ok_or(DeclarationFault::Last)?),
        };
        Ok(Declaration {
            capability: Capability { kind, name },
            description: value("description").and_then(string).unwrap_or_default().into_owned(),
            params: value("params").map_or_else(Vec::new, words),
            event: value("event").and_then(emits),
            needs,
            consumes: value("consumes").map(consumed).unwrap_or_default(),
            last,
        })
    }
}

fn needs(value: &RawValue) -> Result<Vec<Need>, DeclarationFault> {
    let texts: Option<Vec<String>> = serde_json::from_str(value.get()).map_err(|_| DeclarationFault::NeedsShape)?;
    texts.unwrap_or_default().iter().map(|text| Need::read(text.trim())).collect()
}

/// Reads an object of type words; an odd value counts as `string`, an odd object as empty.
fn words<Words: FromIterator<(String, String)>>(value: &RawValue) -> Words {
    let pairs = object(value.get()).unwrap_or_default();
    pairs.into_iter().map(|(key, value)| (key.into_owned(), string(value).map_or_else(|| "string".into(), Into::into))).collect()
}

fn emits(value: &RawValue) -> Option<Emits> {
    if let Some(name) = string(value) {
        return Some(Emits { name: name.into_owned(), fields: BTreeMap::new() });
    }
    let pairs = object(value.get())?;
    let value = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
    Some(Emits { name: value("name").and_then(string)?.into_owned(), fields: value("fields").map_or_else(BTreeMap::new, words) })
}

/// Reads `consumes`: a list of names, or one name; `*` among them means all.
fn consumed(value: &RawValue) -> Vec<String> {
    let names: Vec<String> = match string(value) {
        Some(name) => vec![name.into_owned()],
        None => serde_json::from_str(value.get()).unwrap_or_default(),
    };
    if names.iter().any(|name| name == "*") { Vec::new() } else { names }
}

/// The start of a bad name, short enough for one line.
fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(48).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_climb_hide_or_collide_is_refused_with_the_reason() {
        for good in ["note", "a/b/c", "0x", "timer/set", "a-b_c", &"n".repeat(64), "a/b/c/d/e/f/g/h"] {
            assert_eq!(CapabilityName::new(Kind::Command, good).unwrap().as_str(), good);
        }
        let bad = [
            ("../../evil", "`../../evil` is no name for a capability: each segment starts with a-z or 0-9"),
            ("/etc/x", "`/etc/x` is no name for a capability: each segment starts with a-z or 0-9"),
            (".hidden", "`.hidden` is no name for a capability: each segment starts with a-z or 0-9"),
            ("run", "`run` is no name for a capability: no segment is `run`"),
            ("x/run/y", "`x/run/y` is no name for a capability: no segment is `run`"),
            ("a\nb", "`a\nb` is no name for a capability: a segment holds only a-z, 0-9, _ and -"),
            ("é", "`é` is no name for a capability: each segment starts with a-z or 0-9"),
            ("-rf", "`-rf` is no name for a capability: each segment starts with a-z or 0-9"),
            ("%2e%2e", "`%2e%2e` is no name for a capability: each segment starts with a-z or 0-9"),
            ("", "`` is no name for a capability: each segment starts with a-z or 0-9"),
            ("a/b/c/d/e/f/g/h/i", "`a/b/c/d/e/f/g/h/i` is no name for a capability: it has more than 8 segments"),
        ];
        for (name, reason) in bad {
            assert_eq!(CapabilityName::new(Kind::Command, name).unwrap_err().to_string(), reason);
        }
        let long = CapabilityName::new(Kind::Command, &"n".repeat(300)).unwrap_err().to_string();
        assert_eq!(long, format!("`{}…` is no name for a capability: a segment has at most 64 characters", "n".repeat(48)));
    }

    #[test]
    fn a_projector_cannot_hide_the_kernels_pages() {
        for name in ["kernel", "brief", "events"] {
            assert!(CapabilityName::new(Kind::Projector, name).is_err(), "{name}");
            assert_eq!(CapabilityName::new(Kind::Command, name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn an_inherited_name_cannot_climb_either() {
        for good in ["Note", "a b", "run", "ä/Ö", "a..b"] {
            assert_eq!(CapabilityName::inherited(good).unwrap().as_str(), good);
        }
        for bad in ["", "/a", "a//b", "a/../b", ".a", "a/.b", "a\\b", "a/", "a\0b"] {
            assert_eq!(CapabilityName::inherited(bad), None, "{bad}");
        }
    }

    #[track_caller]
    fn read(kind: Kind, payload: &str) -> Result<Declaration, String> {
        let raw = RawValue::from_string(payload.into()).unwrap();
        Declaration::read(kind, &raw).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_declaration_reads_whole() {
        let text = r#"{"name":" note ","description":"d","params":{"text":"string","n":7},
            "event":{"name":"note.added","fields":{"text":"string"}},"needs":["read:~/notes","net","read:args","write:/tmp/x"],"x":1}"#;
        let declaration = read(Kind::Command, text).unwrap();
        assert_eq!(declaration.capability.to_string(), "command/note");
        assert_eq!(declaration.params, [("text".to_owned(), "string".to_owned()), ("n".into(), "string".into())]);
        assert_eq!(declaration.event.unwrap().fields, [("text".into(), "string".into())].into());
        assert_eq!(
            declaration.needs.iter().map(Need::to_string).collect::<Vec<_>>(),
            ["read:~/notes", "net", "read:args", "write:/tmp/x"]
        );
        let page = read(Kind::Projector, r#"{"name":"notes","consumes":["note.added"],"last":200}"#).unwrap();
        assert_eq!((page.consumes, page.last), (vec!["note.added".to_owned()], Some(200)));
        for all in [
            r#"{"name":"p"}"#,
            r#"{"name":"p","consumes":"*"}"#,
            r#"{"name":"p","consumes":["a.b","*"]}"#,
            r#"{"name":"p","consumes":7}"#,
        ] {
            assert_eq!(read(Kind::Projector, all).unwrap().consumes, Vec::<String>::new(), "{all}");
        }
    }

    #[test]
    fn an_argument_is_in_brackets_where_its_type_word_says_optional() {
        for (word, expect) in
            [("string", "<N>"), ("", "<N>"), ("optionally", "<N>"), ("optional", "[N]"), ("string, optional", "[N]")]
        {
            assert_eq!(argument("n", word, str::to_uppercase), expect, "{word}");
        }
    }

    #[test]
    fn a_bad_declaration_is_refused_with_the_reason() {
        for (payload, reason) in [
            ("null", "a declaration needs an object with a string `name`"),
            ("{}", "a declaration needs an object with a string `name`"),
            (r#"{"name":"x","payload":{}}"#, "a declaration has no key `payload`"),
            (r#"{"name":"x","needs":"net"}"#, "`needs` is a list of strings"),
            (
                r#"{"name":"x","needs":["fly"]}"#,
                "`fly` is no need: a need is `read:<path>`, `write:<path>`, `read:args` or `net`",
            ),
            (r#"{"name":"x","needs":["read:notes"]}"#, "`read:notes` is no need: its path is absolute or starts with `~/`"),
            (r#"{"name":"x","last":0}"#, "`last` is a whole number of at least 1"),
        ] {
            assert_eq!(read(Kind::Command, payload).unwrap_err(), reason);
        }
        assert_eq!(read(Kind::Projector, r#"{"name":"x","needs":["net"]}"#).unwrap_err(), "a projector has no needs");
    }
}
