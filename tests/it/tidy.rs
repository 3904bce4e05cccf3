//! The house: which file may import which, and which may touch the world. DESIGN §9 as data.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Every file of `src/`, top to bottom: a file imports only from files above its own. With each, what of the world it may touch
/// outside its tests; a file without a word is pure.
const HOUSE: &[(&str, &[Touch])] = &[
    ("moment", &[]),
    ("pace", &[]),
    ("payload", &[]),
    ("event", &[]),
    ("record", &[]),
    ("capability", &[]),
    ("vocabulary", &[]),
    ("receipt", &[]),
    ("seal", &[]),
    ("ansi", &[]),
    ("slip", &[]),
    ("reasoning", &[]),
    ("item", &[]),
    ("extent", &[]),
    ("fence", &[]),
    ("envelope", &[]),
    ("element", &[]),
    ("account", &[]),
    ("piece", &[]),
    ("wire", &[]),
    ("names", &[]),
    ("tally", &[]),
    ("standing", &[]),
    ("saying", &[]),
    ("state", &[]),
    ("snapshot", &[]),
    ("slots", &[]),
    ("sum", &[]),
    ("quotation", &[]),
    ("markup", &[]),
    ("depth", &[]),
    ("wash", &[]),
    ("bind", &[]),
    ("gate", &[]),
    ("form", &[]),
    ("span", &[]),
    ("trial", &[]),
    ("spread", &[]),
    ("task", &[]),
    ("face", &[]),
    ("hear", &[]),
    ("query", &[]),
    ("bounds", &[]),
    ("meaning", &[]),
    ("listing", &[]),
    ("filters", &[]),
    ("telling", &[]),
    ("entry", &[]),
    ("lock", &[Touch::Disk, Touch::Clock]),
    ("backwards", &[]),
    ("tail", &[]),
    ("lines", &[Touch::Disk]),
    ("rows", &[Touch::Disk]),
    ("windows", &[Touch::Disk]),
    ("log", &[Touch::Disk]),
    ("feed", &[Touch::Disk]),
    ("append", &[Touch::Disk]),
    ("stretch", &[]),
    ("index", &[Touch::Disk]),
    ("sifting", &[]),
    ("seeking", &[]),
    ("spot", &[]),
    ("recent", &[]),
    ("audit", &[]),
    ("head", &[Touch::Disk]),
    ("level", &[]),
    ("contract", &[]),
    ("brief", &[]),
    ("prompt", &[]),
    ("page", &[]),
    ("input", &[]),
    ("shell", &[]),
    ("visit", &[]),
    ("calendar", &[]),
    ("changes", &[]),
    ("waits", &[]),
    ("today", &[]),
    ("timeline", &[]),
    ("sheet", &[]),
    ("finding", &[]),
    ("doctor", &[]),
    ("effect", &[]),
    ("history", &[]),
    ("difference", &[]),
    ("flow", &[]),
    ("terms", &[]),
    ("catalogue", &[]),
    ("address", &[]),
    ("profile", &[]),
    ("walk", &[]),
    ("proc", &[Touch::Disk]),
    ("inquiry", &[Touch::Processes, Touch::Clock]),
    ("interpreter", &[Touch::Disk, Touch::Processes, Touch::Clock]),
    ("worktree", &[Touch::Processes, Touch::Clock]),
    ("ground", &[Touch::Disk]),
    ("mirror", &[Touch::Disk]),
    ("orders", &[]),
    ("syscalls", &[]),
    ("confine", &[Touch::Disk, Touch::Processes, Touch::Clock]),
    ("launch", &[Touch::Disk, Touch::Processes, Touch::Stdio]),
    ("cell", &[Touch::Processes, Touch::Stdio]),
    ("limit", &[]),
    ("scratch", &[Touch::Disk]),
    ("claim", &[Touch::Disk]),
    ("script", &[Touch::Disk, Touch::Processes, Touch::Clock]),
    ("marker", &[Touch::Disk, Touch::Processes, Touch::Clock]),
    ("job", &[Touch::Disk, Touch::Processes, Touch::Clock]),
    ("turn", &[Touch::Disk, Touch::Clock]),
    ("directory", &[Touch::Disk]),
    ("home", &[Touch::Disk, Touch::Processes]),
    ("grant", &[Touch::Disk]),
    ("roster", &[Touch::Disk, Touch::Processes]),
    ("shelf", &[Touch::Disk, Touch::Processes]),
    ("stop", &[Touch::Signals]),
    ("convoy", &[]),
    ("batch", &[]),
    ("kernel", &[]),
    ("joining", &[]),
    ("asking", &[]),
    ("starting", &[Touch::Signals]),
    ("rendering", &[]),
    ("installing", &[Touch::Clock]),
    ("examining", &[]),
    ("hearing", &[]),
    ("running", &[]),
    ("keeping", &[]),
    ("giving", &[]),
    ("learning", &[]),
    ("verifying", &[Touch::Disk]),
    ("proof", &[]),
    ("browsing", &[]),
    ("showing", &[]),
    ("following", &[Touch::Disk]),
    ("pager", &[Touch::Processes, Touch::Signals, Touch::Stdio]),
    ("logbook", &[Touch::Stdio]),
    ("completing", &[]),
    ("serving", &[Touch::Disk]),
    ("stream", &[]),
    ("answer", &[]),
    ("copies", &[]),
    ("shared", &[]),
    ("posting", &[]),
    ("chronicle", &[]),
    ("routes", &[]),
    ("connection", &[Touch::Network]),
    ("serve", &[Touch::Network]),
    ("browser", &[Touch::Processes]),
    ("cli", &[Touch::Disk, Touch::Stdio]),
    ("main", &[Touch::Environment, Touch::Clock, Touch::Randomness, Touch::Signals]),
];

/// What of the world a file can touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Touch {
    Disk,
    Processes,
    Environment,
    Clock,
    Randomness,
    Stdio,
    Network,
    Signals,
}

/// The paths by which the world is touched.
const PATHS: [(Touch, &[&str]); 8] = [
    (Touch::Disk, &["std::fs", "rustix::fs", "tempfile"]),
    (Touch::Processes, &["std::process", "rustix::process"]),
    (Touch::Environment, &["std::env"]),
    (Touch::Clock, &["SystemTime", "Instant", "Timestamp::now", "Zoned::now", "thread::sleep"]),
    (Touch::Randomness, &["getrandom"]),
    (Touch::Stdio, &["io::stdin", "io::stdout", "io::stderr", "rustix::stdio", "IsTerminal"]),
    (Touch::Network, &["TcpListener", "TcpStream", "UdpSocket", "UnixListener", "UnixStream", "ToSocketAddrs"]),
    (Touch::Signals, &["signal_hook"]),
];

/// A file of `src/`.
struct Source {
    name: String,
    text: String,
}

impl Source {
    /// The code outside the file's test module, without comments.
    fn code(&self) -> String {
        let end = self.text.rfind("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        self.text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
    }

    /// The paths the code names, those of `use` declarations written out one by one.
    fn paths(&self) -> BTreeSet<String> {
        let code = self.code();
        let mut paths = BTreeSet::new();
        for part in code.split("use ").skip(1) {
            if let Some((tree, _)) = part.split_once(';') {
                expand("", &tree.split_whitespace().collect::<String>(), &mut paths);
            }
        }
        let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        paths.extend(code.split(|c| !is_path(c)).filter(|word| word.contains("::")).map(str::to_owned));
        paths
    }

    /// The modules of this crate that the code imports.
    fn imports(&self) -> BTreeSet<String> {
        let module = |path: &str| {
            let rest = path.strip_prefix("crate::").or_else(|| path.strip_prefix("self_kernel::"))?;
            rest.split("::").next().map(str::to_owned)
        };
        self.paths().iter().filter_map(|path| module(path)).filter(|module| !module.is_empty()).collect()
    }
}

/// Writes a `use` tree out as single paths.
fn expand(prefix: &str, tree: &str, paths: &mut BTreeSet<String>) {
    let Some(open) = tree.find('{') else {
        paths.insert(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let inner = tree[open + 1..].strip_suffix('}').unwrap_or(&tree[open + 1..]);
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &inner[from..at], paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[from..], paths);
}

/// The files of `src/`, but for `lib.rs`, which only lists them.
fn sources() -> Vec<Source> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            assert!(path.extension().is_some_and(|end| end == "rs"), "{path:?}: src/ is flat and holds Rust only");
            Source { name: path.file_stem().unwrap().to_str().unwrap().to_owned(), text: fs::read_to_string(&path).unwrap() }
        })
        .collect();
    sources.retain(|source| source.name != "lib");
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(sources.len() > 10);
    sources
}

fn place(name: &str) -> Option<usize> {
    HOUSE.iter().position(|(file, _)| *file == name)
}

#[test]
fn every_file_has_its_place_in_the_house() {
    let there: BTreeSet<_> = sources().into_iter().map(|source| source.name).collect();
    let listed: BTreeSet<_> = HOUSE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let homeless: Vec<_> = there.difference(&listed).collect();
    assert!(homeless.is_empty(), "give {homeless:?} a place in HOUSE of tests/it/tidy.rs, and a row in ARCHITECTURE.md");
    let gone: Vec<_> = listed.difference(&there).collect();
    assert!(gone.is_empty(), "take {gone:?} out of HOUSE of tests/it/tidy.rs: there is no such file");
    assert_eq!(listed.len(), HOUSE.len(), "a file stands in HOUSE twice");
}

#[test]
fn imports_run_one_way() {
    let mut faults = Vec::new();
    for source in sources() {
        let Some(own) = place(&source.name) else { continue };
        for import in source.imports() {
            match place(&import) {
                Some(at) if at < own => {}
                Some(_) => faults.push(format!("src/{}.rs imports `{import}`, which stands below it", source.name)),
                None => faults.push(format!("src/{}.rs imports `{import}`, which is no file of HOUSE", source.name)),
            }
        }
    }
    assert!(
        faults.is_empty(),
        "imports run from the bottom of HOUSE to its top; move what is shared up, or hand it in as a value:\n{}",
        faults.join("\n")
    );
}

#[test]
fn only_the_edges_touch_the_world() {
    let mut faults = Vec::new();
    for source in sources() {
        let Some(own) = place(&source.name) else { continue };
        let allowed = HOUSE[own].1;
        let paths = source.paths();
        let mut touched = BTreeSet::new();
        for (touch, needles) in PATHS {
            for path in &paths {
                let touches = needles.iter().any(|needle| {
                    let inside = path.find(needle).map(|at| (at, &path[at + needle.len()..]));
                    inside.is_some_and(|(at, after)| {
                        (at == 0 || path[..at].ends_with("::")) && (after.is_empty() || after.starts_with("::"))
                    })
                });
                if touches && !path.starts_with("std::process::ExitCode") {
                    touched.insert(touch);
                    if !allowed.contains(&touch) {
                        faults.push(format!("src/{}.rs touches {touch:?} by `{path}`", source.name));
                    }
                }
            }
        }
        for unused in allowed.iter().filter(|touch| !touched.contains(touch)) {
            faults.push(format!("src/{}.rs need not touch {unused:?}: take it out of HOUSE", source.name));
        }
    }
    assert!(
        faults.is_empty(),
        "take time, ids, bytes and paths in as values, or let the file touch it in HOUSE and say why in the commit:\n{}",
        faults.join("\n")
    );
}

/// The files of the server, of which only the last two may not wait for what is to come.
const SERVER: [&str; 9] = ["serve", "connection", "routes", "chronicle", "posting", "shared", "stream", "answer", "serving"];

#[test]
fn only_the_server_is_async_and_it_cannot_name_hear() {
    let mut faults = Vec::new();
    for source in sources() {
        let is_async = source.code().contains(".await") || source.paths().iter().any(|path| path.starts_with("tokio"));
        if is_async && !SERVER[..7].contains(&source.name.as_str()) {
            faults.push(format!("src/{}.rs is async; only {:?} are", source.name, &SERVER[..7]));
        }
        let hears = ["hear", "hearing", "asking", "installing", "learning", "wire"];
        if SERVER.contains(&source.name.as_str()) && source.imports().iter().any(|import| hears.contains(&import.as_str())) {
            faults.push(format!("src/{}.rs names one of {hears:?}: no route hears, learns or approves", source.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_says_what_it_holds() {
    for source in sources() {
        assert!(
            source.text.starts_with("//! "),
            "src/{}.rs: open it with `//!`: what it holds, what it must never do",
            source.name
        );
    }
}

#[test]
fn no_file_is_a_drawer() {
    for source in sources() {
        let drawer = ["util", "utils", "helper", "helpers", "common", "types", "misc"].contains(&source.name.as_str());
        assert!(!drawer, "src/{}.rs: name it for a noun of the domain", source.name);
    }
}

#[test]
fn only_the_vocabulary_spells_the_kernels_names() {
    let mut faults = Vec::new();
    for source in sources().into_iter().filter(|source| source.name != "vocabulary") {
        let code = source.code();
        for row in &self_kernel::vocabulary::TABLE {
            if code.contains(&format!("\"{}\"", row.name)) && !code.contains(&format!("\\\"{}\\\"", row.name)) {
                faults.push(format!("src/{}.rs spells `{}`", source.name, row.name));
            }
        }
    }
    assert!(faults.is_empty(), "write `Word::X.name()` instead:\n{}", faults.join("\n"));
}

#[test]
fn nothing_prints_past_the_one_writer() {
    for source in sources() {
        for word in ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("] {
            assert!(
                !source.code().contains(word),
                "src/{}.rs uses {word}: it panics on a closed pipe; write to the writer",
                source.name
            );
        }
    }
}

#[test]
fn a_use_tree_is_written_out() {
    let mut paths = BTreeSet::new();
    expand("", "crate::{a::{B,C as D},e}", &mut paths);
    expand("", "std::io", &mut paths);
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["crate::a::B", "crate::a::C as D", "crate::e", "std::io"]);
}
