//! The walk: what descends from what among the processes around this one.
//!
//! Pure functions over `&[Process]`, the processes of one look; never touches the system, never guesses from time or terminals.
//! The invariant: a pipe counts as downstream of another only if processes join the two, each by its own stdin and stdout.

/// How many processes one survey reads.
pub(crate) const PROCESSES_MAX: usize = 256;

/// How far under the stage's parent links are looked for, in generations.
const GENERATIONS_MAX: usize = 4;

/// How many ancestors are looked at.
pub(crate) const ANCESTORS_MAX: usize = 16;

/// The lowest descriptor that a shell uses for what it sets aside.
pub(crate) const ASIDE_MIN: u32 = 10;

/// A pipe, by its inode.
pub(crate) type Pipe = u64;

/// An executable file, by device and inode.
pub(crate) type Executable = (u64, u64);

/// A descriptor that is one end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) fd: u32,
    pub(crate) pipe: Pipe,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) cloexec: bool,
}

/// One process at one look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Running or runnable, or waiting where nothing can wake it (as in `vfork`); for an ancestor, the thread that forked.
    pub(crate) busy: bool,
    /// The time it has run, in clock ticks; for an ancestor, that of the thread that forked.
    pub(crate) ticks: u64,
    /// Ignores SIGINT: a shell without job control lets its background do so.
    pub(crate) ignores_interrupts: bool,
    /// An ancestor that is a POSIX shell.
    pub(crate) is_posix_shell: bool,
    /// How many threads it has.
    pub(crate) threads: u32,
    /// What it runs; `None` where that cannot be told.
    pub(crate) exe: Option<Executable>,
    /// Runs this executable with a face that may print a prompt.
    pub(crate) prompts: bool,
    pub(crate) ends: Vec<End>,
}

/// The side of a process that a walk follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Its stdin: the walk goes upstream.
    Stdin,
    /// Its stdout: the walk goes downstream.
    Stdout,
}

/// What one look tells about pipes that nobody reads yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readers {
    /// Each pipe has a reader that has been through `exec`, or nobody holds its reading end.
    Settled,
    /// Somebody holds the reading end of one, not as a stdin, and sleeps: a caller that captures the output.
    Captured,
    /// A shell is at work between two forks, or a child of it before its `exec`.
    Forming,
}

impl Process {
    /// The pipe that is its stdin.
    pub(crate) fn stdin(&self) -> Option<Pipe> {
        self.end(0)
    }

    /// The pipe that is its stdout.
    pub(crate) fn stdout(&self) -> Option<Pipe> {
        self.end(1)
    }

    fn end(&self, fd: u32) -> Option<Pipe> {
        self.ends.iter().find(|end| end.fd == fd).map(|end| end.pipe)
    }

    /// The pipe on one side of it.
    pub(crate) fn side(&self, side: Side) -> Option<Pipe> {
        match side {
            Side::Stdin => self.stdin(),
            Side::Stdout => self.stdout(),
        }
    }

    /// The pipes of a former stdout that a shell set aside during a redirection: write-only, close-on-exec, at or above
    /// [`ASIDE_MIN`]. A pipe of which it holds the reading end too is one it is just building a pipeline with.
    fn asides(&self) -> impl Iterator<Item = Pipe> + '_ {
        self.ends
            .iter()
            .filter(|end| end.fd >= ASIDE_MIN && end.writes && !end.reads && end.cloexec)
            .map(|end| end.pipe)
            .filter(|&pipe| !self.ends.iter().any(|end| end.pipe == pipe && end.reads))
    }
}

pub(crate) fn find(table: &[Process], pid: u32) -> Option<&Process> {
    table.iter().find(|process| process.pid == pid)
}

/// A process and its ancestors, nearest first, as far as the table has them.
fn lineage(table: &[Process], pid: u32) -> Vec<&Process> {
    let mut line = Vec::new();
    let mut next = find(table, pid);
    while let Some(process) = next {
        line.push(process);
        next = find(table, process.parent).filter(|_| line.len() <= ANCESTORS_MAX);
    }
    line
}

/// The *stage* that a process is part of: its topmost ancestor, or itself, that has one of the pipes on this side.
fn stage<'a>(table: &'a [Process], pid: u32, pipes: &[Pipe], side: Side) -> Option<&'a Process> {
    let line = lineage(table, pid);
    let has = |process: &&&Process| process.side(side).is_some_and(|pipe| pipes.contains(&pipe));
    line.iter().rev().find(has).or(line.first()).copied()
}

/// The process whose descendants may be links: the parent of my stage.
pub(crate) fn root(table: &[Process], me: u32, pipes: &[Pipe], side: Side) -> Option<u32> {
    stage(table, me, pipes, side).map(|stage| stage.parent)
}

/// How long the shell of my pipeline has run, in clock ticks.
pub(crate) fn shell_ticks(table: &[Process], me: u32, pipes: &[Pipe]) -> u64 {
    root(table, me, pipes, Side::Stdout).and_then(|root| find(table, root)).map_or(0, |shell| shell.ticks)
}

/// What a process joins: the pipe of its stdin and the pipes it may write that to. A stdin inherited from the parent joins
/// nothing: the process need not read it.
fn link<'a>(table: &'a [Process], process: &'a Process) -> Option<(Pipe, Vec<Pipe>)> {
    let stdin = process.stdin()?;
    if find(table, process.parent).and_then(Process::stdin) == Some(stdin) {
        return None;
    }
    let own = |pipe: &Pipe| !feeds_descendant(table, process.pid, *pipe);
    Some((stdin, process.stdout().into_iter().chain(process.asides().filter(own)).collect()))
}

/// Whether a descendant of a process has the pipe as its stdin: then that is no stdout set aside, it is how a program feeds its
/// own child.
fn feeds_descendant(table: &[Process], pid: u32, pipe: Pipe) -> bool {
    let readers = table.iter().filter(|process| process.pid != pid && process.stdin() == Some(pipe));
    readers.into_iter().any(|reader| lineage(table, reader.pid).iter().any(|ancestor| ancestor.pid == pid))
}

/// The pipe and what is downstream of it, nearest first.
pub(crate) fn downstream(table: &[Process], me: u32, pipe: Pipe) -> Vec<Pipe> {
    let mut pipes = vec![pipe];
    loop {
        joined(table, me, &mut pipes, Side::Stdout);
        match beyond_the_dead_downstream(table, me, &pipes) {
            Some(beyond) => pipes.push(beyond),
            None => return pipes,
        }
    }
}

/// The pipe and what is upstream of it, nearest first.
pub(crate) fn upstream(table: &[Process], me: u32, pipe: Pipe) -> Vec<Pipe> {
    let mut pipes = vec![pipe];
    loop {
        joined(table, me, &mut pipes, Side::Stdin);
        match beyond_the_dead_upstream(table, me, &pipes) {
            Some(beyond) => pipes.push(beyond),
            None => return pipes,
        }
    }
}

/// Adds to the pipes what living processes join to them, in the direction of the side.
fn joined(table: &[Process], me: u32, pipes: &mut Vec<Pipe>, side: Side) {
    let links: Vec<(Pipe, Vec<Pipe>)> =
        table.iter().filter(|process| process.pid != me).filter_map(|process| link(table, process)).collect();
    let mut at = 0;
    while let Some(&pipe) = pipes.get(at) {
        at += 1;
        for (stdin, outs) in &links {
            let next = match side {
                Side::Stdout if *stdin == pipe => outs.as_slice(),
                Side::Stdin if outs.contains(&pipe) => std::slice::from_ref(stdin),
                Side::Stdin | Side::Stdout => &[],
            };
            for &new in next {
                if !pipes.contains(&new) {
                    pipes.push(new);
                }
            }
        }
    }
}

/// Whether two stages are of one pipeline for sure, though no pipe joins them any more: they are children of one shell, and
/// either have a process group that is not the shell's (a job), or are in its foreground. A POSIX shell without job control has
/// one foreground pipeline at a time, and lets those in its background ignore SIGINT (Shell Command Language 2.11); fish does
/// not, nor do programs that start pipelines of their own.
fn one_pipeline(table: &[Process], above: &Process, below: &Process) -> bool {
    let Some(shell) = find(table, above.parent) else { return false };
    let became_below = below.pid == shell.pid;
    let siblings = below.parent == shell.pid || became_below;
    let is_job = above.group != shell.group;
    let in_foreground = !above.ignores_interrupts && !below.ignores_interrupts && (shell.is_posix_shell || became_below);
    siblings && above.group == below.group && (is_job || in_foreground)
}

fn is_read(table: &[Process], me: u32, pipe: Pipe) -> bool {
    table.iter().any(|process| process.pid != me && process.ends.iter().any(|end| end.pipe == pipe && end.reads))
}

fn is_written(table: &[Process], me: u32, pipe: Pipe) -> bool {
    table.iter().any(|process| process.pid != me && process.ends.iter().any(|end| end.pipe == pipe && end.writes))
}

/// Where a stage in between did not read to the end and is gone already: a pipe of my pipeline that nobody reads, above one of
/// mine that nobody writes.
fn beyond_the_dead_upstream(table: &[Process], me: u32, pipes: &[Pipe]) -> Option<Pipe> {
    pipes.iter().find(|&&pipe| !is_written(table, me, pipe))?;
    let below = stage(table, me, pipes, Side::Stdin)?;
    let mut fed = find(table, me)?.stdout().into_iter().collect();
    joined(table, me, &mut fed, Side::Stdout);
    let beyond = |process: &Process| {
        let pipe = process.stdout().filter(|pipe| !pipes.contains(pipe) && !is_read(table, 0, *pipe))?;
        let is_above = process.pid != me && process.stdin().is_none_or(|stdin| !fed.contains(&stdin));
        let above = stage(table, process.pid, &[pipe], Side::Stdout)?;
        (is_above && one_pipeline(table, above, below)).then_some(pipe)
    };
    only(table.iter().filter_map(beyond))
}

/// The one pipe that all of them are; `None` for none, and for several: then it cannot be told which.
fn only(mut pipes: impl Iterator<Item = Pipe>) -> Option<Pipe> {
    let first = pipes.next()?;
    pipes.all(|pipe| pipe == first).then_some(first)
}

/// Whether a stage above me may be a fork that has yet to put its pipes in place, while a pipe of mine has lost its writers: a
/// child of my shell at work with an end of a pipe neither as stdin nor as stdout.
pub(crate) fn is_forming_above(table: &[Process], me: u32, pipes: &[Pipe]) -> bool {
    let Some(below) = stage(table, me, pipes, Side::Stdin) else { return false };
    let sibling = |process: &&Process| process.pid != below.pid && process.parent == below.parent && process.group == below.group;
    let unplugged = |process: &Process| is_forming(table, process) && process.ends.iter().any(|end| end.fd > 1);
    pipes.iter().any(|&pipe| !is_written(table, me, pipe)) && table.iter().filter(sibling).any(unplugged)
}

/// The same seen from the prompt: a pipe of my pipeline that nobody writes, below one of mine that nobody reads.
fn beyond_the_dead_downstream(table: &[Process], me: u32, pipes: &[Pipe]) -> Option<Pipe> {
    pipes.iter().find(|&&pipe| !is_read(table, me, pipe))?;
    let above = stage(table, me, pipes, Side::Stdout)?;
    let mut feeding = find(table, me)?.stdin().into_iter().collect();
    joined(table, me, &mut feeding, Side::Stdin);
    let beyond = |process: &Process| {
        let new = |pipe: &Pipe| !pipes.contains(pipe) && !feeding.contains(pipe) && !is_written(table, 0, *pipe);
        let pipe = process.stdin().filter(new)?;
        let below = stage(table, process.pid, &[pipe], Side::Stdin)?;
        (process.pid != me && one_pipeline(table, above, below)).then_some(pipe)
    };
    only(table.iter().filter_map(beyond))
}

/// Whether a process runs another executable than its parent: it has been through `exec`, so its descriptors are as the shell
/// meant them.
fn formed(table: &[Process], process: &Process) -> bool {
    process.exe.is_none() || find(table, process.parent).is_none_or(|parent| parent.exe != process.exe)
}

/// Whether a process is a fork at work that has not been through `exec`: its descriptors may still change.
pub(crate) fn is_forming(table: &[Process], process: &Process) -> bool {
    process.busy && !formed(table, process)
}

/// Tells whether each pipe has its reader. The evidence is what the shell does and not how long it takes: while it builds a
/// pipeline it holds the reading end for the stage it has yet to fork and runs; once it has forked all, it has closed its copy.
/// A caller that captures the output holds the reading end too, and sleeps.
/// A pipe that nobody holds has lost its readers; what is further down may still be forked.
pub(crate) fn readers(table: &[Process], me: u32, pipes: &[Pipe]) -> Readers {
    let ancestors: Vec<u32> = lineage(table, me).iter().map(|process| process.pid).collect();
    let forming = |process: &Process| is_forming(table, process) || (process.busy && ancestors.contains(&process.pid));
    let root = root(table, me, pipes, Side::Stdout);
    let others = || table.iter().filter(|process| process.pid != me);
    let of_pipe = |&pipe: &Pipe| {
        let mut readers = others().filter(|process| process.stdin() == Some(pipe)).peekable();
        if readers.peek().is_some() {
            return if readers.any(forming) { Readers::Forming } else { Readers::Settled };
        }
        let holds = |process: &&Process| process.ends.iter().any(|end| end.pipe == pipe && end.reads && end.fd != 0);
        let mut holders = others().filter(holds).peekable();
        match holders.peek().is_some() {
            false if others().any(|process| root == Some(process.pid) && process.busy) => Readers::Forming,
            false if others().any(|process| root == Some(process.parent) && forming(process)) => Readers::Forming,
            false => Readers::Settled,
            true if holders.any(forming) => Readers::Forming,
            true => Readers::Captured,
        }
    };
    pipes.iter().map(of_pipe).max().unwrap_or(Readers::Settled)
}

/// Chooses the processes under `root` to read: at most [`GENERATIONS_MAX`] generations, those of `group` before the others,
/// the newest pid first, at most [`PROCESSES_MAX`].
pub(crate) fn under(
    root: u32,
    group: u32,
    children: impl Fn(u32) -> Vec<u32>,
    group_of: impl Fn(u32) -> Option<u32>,
) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut generation = vec![root];
    for _ in 0..GENERATIONS_MAX {
        let mut next: Vec<u32> = generation.iter().flat_map(|&pid| children(pid)).filter(|pid| !found.contains(pid)).collect();
        next.sort_unstable_by_key(|&pid| std::cmp::Reverse(pid));
        next.truncate(4 * PROCESSES_MAX);
        found.extend(&next);
        generation = next;
    }
    let mut ranked: Vec<(bool, u32)> = found.into_iter().filter_map(|pid| Some((group_of(pid)? == group, pid))).collect();
    ranked.sort_unstable_by_key(|&rank| std::cmp::Reverse(rank));
    ranked.truncate(PROCESSES_MAX);
    ranked.into_iter().map(|(_, pid)| pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: u32 = 10;
    const ME: u32 = 100;
    const SH: Option<Executable> = Some((1, 1));

    fn process(pid: u32, parent: u32) -> Process {
        Process { pid, parent, group: 1, threads: 1, exe: Some((9, u64::from(pid))), ..Process::default() }
    }

    impl Process {
        fn with(mut self, fd: u32, pipe: Pipe, reads: bool, cloexec: bool) -> Process {
            self.ends.push(End { fd, pipe, reads, writes: !reads, cloexec });
            self
        }
        fn from(self, pipe: Pipe) -> Process {
            self.with(0, pipe, true, false)
        }
        fn to(self, pipe: Pipe) -> Process {
            self.with(1, pipe, false, false)
        }
        fn holding(self, pipe: Pipe) -> Process {
            self.with(3, pipe, true, false)
        }
        fn aside(self, pipe: Pipe) -> Process {
            self.with(10, pipe, false, true)
        }
        fn busy(mut self) -> Process {
            self.busy = true;
            self
        }
        fn unformed(mut self) -> Process {
            self.exe = SH;
            self
        }
    }

    /// A shell under `init`, not a link itself.
    fn shell() -> Process {
        Process { is_posix_shell: true, ..process(SHELL, 1).unformed() }
    }

    #[track_caller]
    fn check_down(table: &[Process], pipe: Pipe, expect: &[Pipe]) {
        assert_eq!(downstream(table, ME, pipe), expect);
    }

    #[track_caller]
    fn check_up(table: &[Process], pipe: Pipe, expect: &[Pipe]) {
        assert_eq!(upstream(table, ME, pipe), expect);
    }

    #[track_caller]
    fn check_root(table: &[Process], pipe: Pipe, side: Side, expect: u32) {
        assert_eq!(root(table, ME, &[pipe], side), Some(expect));
    }

    #[test]
    fn a_plain_pipeline_joins_its_pipes() {
        let rest = [process(101, SHELL).from(1).to(2), process(102, SHELL).from(2).to(3)];
        let prompt = [&[process(ME, SHELL).to(1), shell()], &rest[..]].concat();
        check_root(&prompt, 1, Side::Stdout, SHELL);
        check_down(&prompt, 1, &[1, 2, 3]);
        let ear = [&[process(ME, SHELL).from(3), shell()], &rest[..]].concat();
        check_root(&ear, 3, Side::Stdin, SHELL);
        check_up(&ear, 3, &[3, 2, 1]);
    }

    #[test]
    fn two_pipelines_of_one_shell_stay_apart() {
        let table = [
            process(ME, SHELL).to(1),
            shell(),
            process(101, SHELL).from(1).to(2),
            process(200, SHELL).to(11),
            process(201, SHELL).from(11).to(12),
        ];
        check_down(&table, 1, &[1, 2]);
        check_down(&table, 11, &[11, 12]);
    }

    #[test]
    fn the_stage_is_the_topmost_ancestor_with_my_pipe() {
        let group = process(20, SHELL).to(1);
        let runner = process(21, 20).to(1);
        let table = [process(ME, 21).to(1), runner, group, shell(), process(101, SHELL).from(1).to(2)];
        check_root(&table, 1, Side::Stdout, SHELL);
        check_down(&table, 1, &[1, 2]);
        let redirected = process(21, 20).to(7);
        let table = [process(ME, 21).to(1), redirected, process(20, SHELL).to(1), shell()];
        check_root(&table, 1, Side::Stdout, SHELL);
    }

    #[test]
    fn a_stdin_inherited_from_the_parent_joins_nothing() {
        // `self ask | sh script | self`, and in the script `other | self`: the other inherits the script's stdin.
        let script = process(SHELL, 1).from(1).to(2);
        let table = [process(ME, SHELL).from(12).to(2), script, process(101, SHELL).from(1).to(12)];
        check_up(&table, 12, &[12]);
        // A subshell of the pipeline is a link; what it runs with the same stdin need not be one.
        let table = [process(ME, SHELL).from(2), shell(), process(20, SHELL).from(1).to(2), process(21, 20).from(1).to(2)];
        check_up(&table, 2, &[2, 1]);
    }

    #[test]
    fn a_shell_that_became_the_last_stage_is_found_among_its_own_children() {
        let table = [process(ME, 1).from(2), process(101, ME).from(1).to(2), process(102, ME).to(1)];
        check_root(&table, 2, Side::Stdin, 1);
        check_up(&table, 2, &[2, 1]);
        // … and by the prompt as the reader of its pipe.
        let table = [process(ME, SHELL).to(1), process(SHELL, 1).from(2), process(101, SHELL).from(1).to(2)];
        check_down(&table, 1, &[1, 2]);
        assert_eq!(readers(&table, ME, &[1, 2]), Readers::Settled);
    }

    #[test]
    fn a_stdout_set_aside_during_a_redirection_still_joins() {
        let dash = process(20, SHELL).from(1).with(1, 50, false, false).aside(2);
        let table = [process(ME, SHELL).to(1), shell(), dash.clone(), process(21, 20).from(1).to(50)];
        check_down(&table, 1, &[1, 50, 2]);
        let table = [process(ME, SHELL).from(2), shell(), dash, process(22, SHELL).from(50)];
        check_up(&table, 2, &[2, 1]);
    }

    #[test]
    fn a_pipe_that_a_program_feeds_or_builds_with_is_not_set_aside() {
        // A python mind that asks a self of its own through a pipe.
        let python = process(20, SHELL).from(1).to(2).aside(30);
        let table = [process(ME, 20).from(30).to(31), python.clone(), shell()];
        check_up(&table, 30, &[30]);
        // A zsh script as the mind, which is just forking the first stage of a pipeline of its own.
        let zsh = process(20, SHELL).from(1).to(2).aside(30).with(11, 30, true, true);
        check_down(&[process(ME, SHELL).to(1), shell(), zsh], 1, &[1, 2]);
        // Descriptors below ten, and those that survive an exec, belong to the script.
        let script = process(20, SHELL).from(1).to(2).with(9, 30, false, true).with(12, 31, false, false);
        check_down(&[process(ME, SHELL).to(1), shell(), script], 1, &[1, 2]);
    }

    #[test]
    fn a_loop_of_pipes_ends() {
        let table = [process(ME, SHELL).to(1), shell(), process(20, SHELL).from(1).to(2), process(21, SHELL).from(2).to(1)];
        check_down(&table, 1, &[1, 2]);
        check_up(&table, 1, &[1, 2]);
        let own_parent = [process(ME, ME).to(1)];
        check_down(&own_parent, 1, &[1]);
        check_root(&own_parent, 1, Side::Stdout, ME);
    }

    /// `self | a | b | self`, of which a, who did not read, is gone: pipe 1 has no reader, pipe 2 no writer.
    fn bereft(shell: &Process, prompt: &Process, ear: &Process) -> [Process; 4] {
        let between = Process { group: ear.group, ignores_interrupts: ear.ignores_interrupts, ..process(102, SHELL) };
        [prompt.clone().from(9).to(1), shell.clone(), between.from(2).to(3), ear.clone().from(3).to(4)]
    }

    #[track_caller]
    fn check_dead(shell: &Process, prompt: &Process, ear: &Process, expect: bool) {
        let table = bereft(shell, prompt, ear);
        let (up, down) = (upstream(&table, ear.pid, 3), downstream(&table, prompt.pid, 1));
        assert_eq!(up, if expect { vec![3, 2, 1, 9] } else { vec![3, 2] });
        assert_eq!(down, if expect { vec![1, 2, 3, 4] } else { vec![1] });
    }

    #[test]
    fn a_stage_that_is_gone_already_is_bridged_within_one_pipeline_only() {
        let (prompt, ear) = (process(100, SHELL), process(103, SHELL));
        let background = |process: &Process| Process { ignores_interrupts: true, ..process.clone() };
        let job = |process: &Process, group| Process { group, ..process.clone() };
        check_dead(&shell(), &prompt, &ear, true);
        check_dead(&shell(), &background(&prompt), &ear, false);
        check_dead(&shell(), &prompt, &background(&ear), false);
        check_dead(&shell(), &background(&prompt), &background(&ear), false);
        check_dead(&shell(), &job(&prompt, 100), &job(&ear, 100), true);
        check_dead(&shell(), &job(&background(&prompt), 100), &job(&background(&ear), 100), true);
        check_dead(&shell(), &job(&prompt, 100), &job(&ear, 102), false);
        check_dead(&process(SHELL, 1), &prompt, &ear, false);
        check_dead(&shell(), &Process { parent: 77, ..prompt.clone() }, &ear, false);
    }

    #[test]
    fn of_two_stages_that_lost_their_reader_none_is_bridged() {
        let table = [process(ME, SHELL).from(3), shell(), process(101, SHELL).to(1), process(102, SHELL).to(2)];
        check_up(&table, 3, &[3]);
        let table = [process(ME, SHELL).to(1), shell(), process(101, SHELL).from(2), process(102, SHELL).from(3)];
        check_down(&table, 1, &[1]);
    }

    #[test]
    fn a_shell_that_became_the_last_stage_bridges_too() {
        let table = [process(ME, 1).from(2), process(101, ME).to(1)];
        check_up(&table, 2, &[2, 1]);
        assert_eq!(downstream(&table, 101, 1), [1, 2]);
    }

    #[test]
    fn a_fork_that_has_yet_to_place_its_pipes_may_be_above_me() {
        let ear = process(ME, SHELL).from(2);
        let fork = process(99, SHELL).unformed().busy();
        let late = |fork: Process| is_forming_above(&[ear.clone(), shell(), fork], ME, &[2]);
        assert!(late(fork.clone().with(4, 1, false, false)));
        assert!(!late(fork.clone()), "it has placed them");
        assert!(!late(process(99, SHELL).busy().with(4, 1, false, false)), "another program");
        assert!(!late(Process { group: 7, ..fork.clone().with(4, 1, false, false) }), "another job");
        assert!(!is_forming_above(&[ear.clone(), shell(), fork.with(4, 1, false, false).to(2)], ME, &[2]), "my pipe is written");
    }

    #[test]
    fn what_i_feed_myself_is_not_above_me() {
        let after = process(101, SHELL).from(2).to(3);
        check_up(&[process(ME, SHELL).from(1).to(2), shell(), after.clone()], 1, &[1]);
        let before = process(99, SHELL).from(8).to(9);
        check_down(&[process(ME, SHELL).from(9).to(1), shell(), before], 1, &[1]);
    }

    #[track_caller]
    fn check_readers(others: &[Process], pipes: &[Pipe], expect: Readers) {
        let table = [&[process(ME, SHELL).to(1)], others].concat();
        assert_eq!(readers(&table, ME, pipes), expect);
    }

    #[test]
    fn a_shell_between_two_forks_is_seen_by_the_reading_end_it_holds() {
        check_readers(&[shell().holding(1).busy()], &[1], Readers::Forming);
        let mind = process(101, SHELL).from(1).to(2);
        check_readers(&[shell().holding(2).busy(), mind.clone()], &[1, 2], Readers::Forming);
        let fork = process(102, SHELL).unformed().holding(2).busy();
        check_readers(&[shell(), mind.clone(), fork], &[1, 2], Readers::Forming);
        let half = process(101, SHELL).unformed().from(1).busy();
        check_readers(&[shell(), half], &[1], Readers::Forming);
        check_readers(&[shell().busy(), mind.clone(), process(102, SHELL).from(2)], &[1, 2], Readers::Settled);
        check_readers(&[shell(), mind.busy()], &[1], Readers::Settled);
    }

    #[test]
    fn a_caller_that_captures_the_output_holds_the_reading_end_and_sleeps() {
        check_readers(&[shell().holding(1)], &[1], Readers::Captured);
        check_readers(&[shell().holding(2), process(101, SHELL).from(1).to(2)], &[1, 2], Readers::Captured);
        // make: a sibling that is at work has nothing to do with it.
        check_readers(&[shell().holding(1), process(101, SHELL).busy().holding(1)], &[1], Readers::Captured);
    }

    #[test]
    fn a_pipe_that_nobody_can_read_has_no_reader_to_come() {
        check_readers(&[shell()], &[1], Readers::Settled);
        check_readers(&[], &[1], Readers::Settled);
        check_readers(&[shell().holding(7)], &[1], Readers::Settled);
        // … but the shell may still fork what is further down.
        check_readers(&[shell().busy()], &[1], Readers::Forming);
        check_readers(&[shell(), process(102, SHELL).unformed().busy()], &[1], Readers::Forming);
    }

    #[test]
    fn links_are_looked_for_four_generations_deep() {
        let chain = |pid: u32| if pid < 20 { vec![pid + 1] } else { vec![] };
        assert_eq!(under(10, 1, chain, |_| Some(1)), [14, 13, 12, 11]);
        let own_child = |pid: u32| vec![pid];
        assert_eq!(under(10, 1, own_child, |_| Some(1)), [10]);
    }

    #[test]
    fn my_group_comes_first_then_the_newest_and_256_are_enough() {
        let family = |pid: u32| if pid == 10 { (100..1100).collect() } else { vec![] };
        let group = |pid: u32| Some(u32::from(pid < 103));
        let chosen = under(10, 1, family, group);
        assert_eq!(chosen.len(), PROCESSES_MAX);
        assert_eq!(&chosen[..5], [102, 101, 100, 1099, 1098]);
        assert_eq!(under(10, 1, family, |pid| (pid == 500).then_some(1)), [500], "what is gone meanwhile is passed over");
    }
}
