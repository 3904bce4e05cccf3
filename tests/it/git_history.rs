//! `examples/git-history`: a repository's own history as events, through the pipe.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

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
