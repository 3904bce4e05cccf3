//! `examples/git-history`: a repository's own history as events, through the pipe.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use self_kernel::wire::{Item, read};

use crate::mind_stub::{Came, run_script};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs `git-history REPOSITORY | self hear` in a new home and gives the log's lines.
fn history(repository: &Path) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let line = format!("'{ROOT}/examples/git-history/git-history' \"$0\" | '{}' hear", env!("CARGO_BIN_EXE_self"));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .arg(repository)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("SELF_HOME", home.path());
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "every line was an event");
    fs::read_to_string(home.path().join("events.jsonl")).unwrap().lines().map(str::to_owned).collect()
}

fn git(repository: &Path, arguments: &[&str], input: &str) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let mut child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn this_repositorys_own_history_lands_whole() {
    let repository = Path::new(ROOT);
    assert!(repository.join(".git").exists(), "run from a clone: the test reads this repository's own `git log`");
    let hashes = git(repository, &["log", "--reverse", "--format=%H"], "");
    let log = history(repository);
    assert_eq!(log.len(), hashes.lines().count() + 1);
    for (hash, line) in hashes.lines().zip(&log[1..]) {
        assert!(
            line.contains("\"name\":\"commit.made\",")
                && line.contains(&format!("\"payload\":{{\"hash\":\"{hash}\",\"author\":\"")),
            "{line}"
        );
    }
}

#[test]
fn twenty_thousand_commits_pass_in_one_body() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("old \"project\"");
    fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "-q"], "");
    let mut stream = String::new();
    for n in 0..20_000 {
        let subject = format!("say \"{n}\" \\ and\ttab");
        let bytes = subject.len();
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter A \"B\" C <a@b> {} +0100\ndata {bytes}\n{subject}\n",
            1_000_000_000 + n
        ));
        stream.push_str(&format!("M 100644 inline dir/f{}\ndata 1\n{}\n", n % 7, n % 10));
    }
    git(&repository, &["fast-import", "--quiet"], &stream);
    git(&repository, &["symbolic-ref", "HEAD", "refs/heads/main"], "");
    let log = history(&repository);
    assert_eq!(log.len(), 20_001);
    let last = &log[20_000];
    assert!(last.contains(".20001-20001\",\"seq\":20001,"), "{last}");
    let payload = "\"author\":\"A \\\"B\\\" C\",\"at\":\"2001-09-09T08:19:59+01:00\",\"subject\":\"say \\\"19999\\\" \\\\ and\\u0009tab\",\"files\":[\"dir/f0\"]}}";
    assert!(last.ends_with(payload), "{last}");
}

/// The script of the page `history`, as the wire finds it in its file.
fn page() -> String {
    let body = fs::read(Path::new(ROOT).join("examples/git-history/declare.md")).unwrap();
    let items = read(&body).items;
    let [Item::Draft(sent), Item::Script(authored)] = items.as_slice() else {
        panic!("more than a declaration and its script: {items:?}")
    };
    assert_eq!(sent.draft.name.as_str(), "projector.declared");
    assert_eq!((authored.kind.as_str(), authored.name.as_str()), ("projector", "history"));
    authored.script.clone()
}

fn commit(seq: u64, payload: &str) -> String {
    let moment = "2026-01-01T00:00:00Z";
    format!(
        "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"commit.made\",\"occurred_at\":\"{moment}\",\"payload\":{payload}}}\n"
    )
}

#[track_caller]
fn shows(log: &[String], expect: &str) {
    for environment in [&[("LANG", "C.UTF-8"), ("PYTHONHASHSEED", "0")], &[("LANG", "C"), ("PYTHONHASHSEED", "1")]] {
        assert_eq!(run_script(&page(), &[""; 0], &log.concat(), environment), Came::printed(expect));
    }
}

#[test]
fn the_page_tells_who_changed_what_when() {
    shows(&[], "<h1>History</h1>\n<p>No commit yet.</p>\n");
    let made = |hash: &str, author: &str, at: &str, subject: &str, files: &str| {
        format!(r#"{{"hash":"{hash}","author":"{author}","at":"{at}","subject":"{subject}","files":[{files}]}}"#)
    };
    let first = made("0123456789abcdef", "bob", "2026-01-01T23:59:59+14:00", "first", "");
    let log = [
        commit(2, &first),
        commit(3, &made("1123456789", "ada", "2026-01-02T00:00:00-12:00", "<script>x</script> & y", r#""a","<b>""#)),
        commit(4, &made("2123456789", "bob", "2026-01-02T01:00:00Z", "third", r#""a""#)),
        commit(5, &made("3123456789", "ada", "2026-01-02T02:00:00Z", "fourth", "")),
        commit(6, &first),
    ];
    shows(
        &log,
        "<h1>History</h1>\n<p>4 commits on 2 days.</p>\n<section>\n<h2>2026-01-02</h2>\n<h3>ada</h3>\n<ul>\n\
         <li>fourth <small><code>3123456789</code></small></li>\n\
         <li>&lt;script&gt;x&lt;/script&gt; &amp; y <small><code>1123456789</code></small>\n<details>\n<summary>2 files</summary>\n\
         <ul>\n<li><code>a</code></li>\n<li><code>&lt;b&gt;</code></li>\n</ul>\n</details></li>\n</ul>\n<h3>bob</h3>\n<ul>\n\
         <li>third <small><code>2123456789</code></small>\n<details>\n<summary>1 file</summary>\n<ul>\n<li><code>a</code></li>\n\
         </ul>\n</details></li>\n</ul>\n</section>\n<section>\n<h2>2026-01-01</h2>\n<h3>bob</h3>\n<ul>\n\
         <li>first <small><code>0123456789</code></small></li>\n</ul>\n</section>\n",
    );
}

#[test]
fn the_page_takes_any_payload() {
    let odd = r#"{"hash":7,"author":"<script>\ud800\u0001","at":"<b>&\"'\n<i>","subject":null,"files":{"a":1}}"#;
    let long = format!(r#"{{"hash":"a<b","n":{},"m":1e999}}"#, "1".repeat(5000));
    shows(
        &[commit(2, odd), commit(3, "null"), commit(4, &long)],
        "<h1>History</h1>\n<p>3 commits on 2 days.</p>\n<section>\n<h2>Undated</h2>\n<h3>somebody</h3>\n<ul>\n\
         <li>no subject <small><code>a&lt;b</code></small></li>\n<li>no subject <small><code>seq 3</code></small></li>\n</ul>\n\
         </section>\n<section>\n<h2>&lt;b&gt;&amp;&quot;&#x27;\u{fffd}&lt;i&gt;</h2>\n<h3>&lt;script&gt;\u{fffd}\u{fffd}</h3>\n<ul>\n\
         <li>no subject <small><code>7</code></small></li>\n</ul>\n</section>\n",
    );
}
