#!/usr/bin/env python3
"""What a hostile script tries, one event a try: {"name": "attack.tried", "payload": {"attack", "held", "said"}}.

`held` says that it did not get what it wanted; the table of `attacks.rs` says at which level it must not. Arguments: the home, the
user's folder, a project beside them, the number of a process of the same user. Every try ends by itself and breaks nothing: files that
it changes are decoys, and calls that would change the machine are made with arguments that no system takes.
"""
import ctypes, errno, fcntl, json, mmap, os, platform, resource, signal, socket, sys

HOME, USER, PROJECT, VICTIM = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
SCRATCH = os.environ["TMPDIR"]
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
DENIED = (errno.EPERM, errno.EACCES)
CALLS = {  # the number on x86_64, on aarch64
    "ptrace": (101, 117), "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220), "clone3": (435, 435),
    "io_uring_setup": (425, 425), "process_vm_readv": (310, 270), "kcmp": (312, 272), "keyctl": (250, 219), "shmget": (29, 194),
    "open_by_handle_at": (304, 265), "chroot": (161, 51), "fchmodat2": (452, 452), "prlimit64": (302, 261),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "utimensat": (280, 88),
}
TRIES = []


def attack(title):
    return lambda tried: TRIES.append((title, tried))


def call(name, *arguments):
    """Makes a call of the system; the error's number, 0 for none."""
    number = CALLS[name][0 if X86 else 1]
    ctypes.set_errno(0)
    made = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(it) if isinstance(it, int) else it for it in arguments])
    return ctypes.get_errno() if made == -1 else 0


def denies(name, *arguments):
    error = call(name, *arguments)
    return error in DENIED, errno.errorcode.get(error, "0")


def fails(work):
    """Whether the work fails for want of a right; what it gave or said."""
    try:
        given = work()
        return False, repr(given)[:60]
    except OSError as fault:
        return fault.errno in DENIED + (errno.EROFS, errno.ESRCH, errno.EXDEV, errno.ENOENT), str(fault)[:90]


def read(path):
    with open(path, "rb") as file:
        return len(file.read(64))


def in_child(work):
    """Runs the work in a child; the status it exited with, minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def descriptors():
    found = []
    for fd in range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        try:
            os.fstat(fd)
            found.append(fd)
        except OSError:
            pass
    return found


CAME_ALONG = descriptors()  # before any try leaves one open
home = lambda name: os.path.join(HOME, name)

# ---- S1: reading
attack("S1 read the key")(lambda: fails(lambda: read(home(".secret"))))
attack("S1 read the kernel's own folder")(lambda: fails(lambda: os.listdir(home(".self"))))
attack("S1 list the home")(lambda: fails(lambda: os.listdir(HOME)))
attack("S1 read ~/.ssh")(lambda: fails(lambda: read(os.path.join(USER, ".ssh/id_ed25519"))))
attack("S1 list the user's folder")(lambda: fails(lambda: os.listdir(USER)))
attack("S1 read a project's .env")(lambda: fails(lambda: read(os.path.join(PROJECT, ".env"))))


@attack("S1 read the key over a link")
def _():
    os.symlink(home(".secret"), os.path.join(SCRATCH, "soft"))
    return fails(lambda: read(os.path.join(SCRATCH, "soft")))


@attack("S1 take a name of the key")
def _():
    def take():
        os.link(home(".secret"), home("site/hard"))
        os.unlink(home("site/hard"))

    return fails(take)


@attack("S1 read the key through /proc")
def _():
    ways = ["/proc/self/root" + home(".secret"), "/proc/self/cwd/.secret"]
    found = [fails(lambda: read(way)) for way in ways]
    return all(held for held, _ in found), found[0][1]


@attack("S1 read the key over a descriptor that only names it")
def _():
    def reopen():
        named = os.open(home(".secret"), os.O_PATH)
        return read(f"/proc/self/fd/{named}")

    return fails(reopen)


attack("S1 open a file by its handle")(lambda: denies("open_by_handle_at", -1, 0, 0))


@attack("S1 run a file that others may not read")
def _():
    def run():
        return os.posix_spawn(os.path.join(PROJECT, "tool"), ["tool"], {})

    return fails(run)


@attack("S1 watch a folder that it may not list")
def _():
    watcher = LIBC.inotify_init1(0)
    ctypes.set_errno(0)
    watched = LIBC.inotify_add_watch(watcher, USER.encode(), 0x100)
    error = ctypes.get_errno()
    os.close(watcher)
    return watched < 0 and error in DENIED, errno.errorcode.get(error, "0")


attack("S1 learn that a file is there, its size and its times")(lambda: fails(lambda: os.stat(home(".secret")).st_size))


@attack("S1 read the log")
def _():
    return fails(lambda: read(home("events.jsonl")))


# ---- S2: writing
@attack("S2 append to the log")
def _():
    return fails(lambda: open(home("events.jsonl"), "ab").close())


@attack("S2 make a file in the home")
def _():
    def make():
        open(home("made"), "wb").close()
        os.unlink(home("made"))

    return fails(make)


@attack("S2 make a file in the user's folder")
def _():
    def make():
        open(os.path.join(USER, "made"), "wb").close()
        os.unlink(os.path.join(USER, "made"))

    return fails(make)


DECOY = home("site/decoy")
attack("S2 write a page")(lambda: fails(lambda: open(DECOY, "ab").close()))
attack("S2 cut a page")(lambda: fails(lambda: os.truncate(DECOY, os.stat(DECOY).st_size)))


@attack("S2 rename a file of the home")
def _():
    def rename():
        os.rename(DECOY, DECOY + ".x")
        os.rename(DECOY + ".x", DECOY)

    return fails(rename)


attack("S2 open the log to write")(lambda: fails(lambda: open(home("events.jsonl"), "r+b").close()))
attack("S2 remove a file of the home")(lambda: fails(lambda: os.rmdir(home("empty")) or os.mkdir(home("empty"))))
mode = lambda path: os.stat(path).st_mode & 0o7777
attack("S2 chmod a page")(lambda: fails(lambda: os.chmod(DECOY, mode(DECOY))))


def by_descriptor(work):
    fd = os.open(DECOY, os.O_RDONLY)
    try:
        return work(fd)
    finally:
        os.close(fd)


attack("S2 chmod by descriptor")(lambda: fails(lambda: by_descriptor(lambda fd: os.fchmod(fd, mode(DECOY)))))
attack("S2 chmod by the newest call")(lambda: denies("fchmodat2", -1, ctypes.c_char_p(b""), 0o600, 0))
attack("S2 chown a page")(lambda: fails(lambda: os.chown(DECOY, os.getuid(), os.getgid())))
attack("S2 chown by descriptor")(lambda: fails(lambda: by_descriptor(lambda fd: os.fchown(fd, os.getuid(), os.getgid()))))


@attack("S2 set an attribute of a page")
def _():
    return fails(lambda: os.setxattr(DECOY, "user.x", b"1"))


@attack("S2 set an attribute by descriptor")
def _():
    return fails(lambda: by_descriptor(lambda fd: os.setxattr(fd, "user.x", b"1")))


@attack("S2 put a page's time back")
def _():
    before = os.stat(DECOY).st_mtime_ns
    os.utime(DECOY, (1, 1))
    after = os.stat(DECOY).st_mtime_ns
    return before == after, f"{before} {after}"


def request(number):
    """An ioctl on a page, with a zero as its argument."""

    def made(fd):
        ctypes.set_errno(0)
        zero = ctypes.c_long(0)
        LIBC.ioctl(fd, ctypes.c_ulong(number), ctypes.byref(zero))
        return ctypes.get_errno()

    error = by_descriptor(made)
    return error in DENIED, errno.errorcode.get(error, "0")


attack("S2 set a page's flags")(lambda: request(0x40086602))
attack("S2 set a page's extended flags")(lambda: request(0x401C5820))


@attack("S8 take a lease on the log")
def _():
    def lease():
        fd = os.open(home("events.jsonl"), os.O_RDONLY)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    return fails(lease)


attack("S8 lock the kernel's lock")(lambda: fails(lambda: os.open(home(".self/lock"), os.O_RDONLY)))


# ---- S3: sockets
@attack("S3 make a socket of any family")
def _():
    made = []
    for family in range(0, 47):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            ctypes.set_errno(0)
            fd = LIBC.socket(family, kind, 0)
            if fd >= 0:
                os.close(fd)
            if fd >= 0 or ctypes.get_errno() not in DENIED:
                made.append(family)
    return not made, str(sorted(set(made)))


@attack("S3 make a pair of sockets")
def _():
    return fails(lambda: [it.close() for it in socket.socketpair()])


@attack("S3 listen on an abstract name")
def _():
    def listen():
        with socket.socket(socket.AF_UNIX) as it:
            it.bind("\0self-attack-%d" % os.getpid())

    return fails(listen)


attack("S3 make a ring")(lambda: denies("io_uring_setup", 0, 0))

# ---- S4: other processes
attack("S4 signal another process")(lambda: fails(lambda: os.kill(VICTIM, 0)))


@attack("S4 learn which processes there are")
def _():
    return fails(lambda: os.stat(f"/proc/{VICTIM}").st_uid)


@attack("S4 learn which program a process is")
def _():
    return fails(lambda: os.readlink(f"/proc/{VICTIM}/exe"))


@attack("S4 trace a process")
def _():
    # The parent that would trace it only reaps it.
    return in_child(lambda: 1 if call("ptrace", 0, 0, 0, 0) else 0) == 1, ""


attack("S4 read a process's memory")(lambda: denies("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0))
attack("S4 compare processes")(lambda: denies("kcmp", os.getpid(), os.getpid(), 1, 0, 0))
attack("S4 take a descriptor of a process")(lambda: denies("pidfd_getfd", -1, 0, 0))
attack("S4 read /proc of another process")(lambda: fails(lambda: read(f"/proc/{VICTIM}/environ")))
attack("S4 list /proc")(lambda: fails(lambda: len(os.listdir("/proc"))))


@attack("S4 change a process's priority")
def _():
    return fails(lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, os.getpriority(os.PRIO_PROCESS, VICTIM)))


@attack("S4 read another process's limits")
def _():
    error = call("prlimit64", VICTIM, 7, 0, 0)
    return error in DENIED + (errno.ESRCH,), errno.errorcode.get(error, "0")


attack("S4 share memory by number")(lambda: denies("shmget", 0x5E1F, 0, 0))
attack("S4 ask for keys of the session")(lambda: denies("keyctl", 0, -3, 0))

# ---- the system
attack("S2 mount")(lambda: denies("mount", 1, 1, 1, 0, 0))
attack("S2 make a namespace")(lambda: denies("unshare", 0))
attack("S2 enter a namespace")(lambda: denies("setns", -1, 0))


@attack("S2 make a process in a namespace")
def _():
    CLONE_NEWUSER, SIGCHLD = 0x10000000, 17
    number = CALLS["clone"][0 if X86 else 1]
    ctypes.set_errno(0)
    made = LIBC.syscall(number, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
    if made == 0:
        os._exit(0)
    if made > 0:
        os.waitpid(made, 0)
    return made == -1 and ctypes.get_errno() in DENIED, errno.errorcode.get(ctypes.get_errno(), "0")


@attack("S2 make a process by the call that cannot be looked into")
def _():
    error = call("clone3", 0, 0)
    return error == errno.ENOSYS, errno.errorcode.get(error, "0")


@attack("S2 type into a terminal")
def _():
    return request(0x5412)


@attack("S2 call through another table of the system")
def _():
    if not X86:
        return None, "x86_64 only"
    ctypes.set_errno(0)
    made = LIBC.syscall(ctypes.c_long(0x40000000 + 39))
    return made == -1 and ctypes.get_errno() == errno.EPERM, errno.errorcode.get(ctypes.get_errno(), "0")


@attack("S2 call as a program of 32 bits")
def _():
    if not X86:
        return None, "x86_64 only"

    def call32():
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, getpid; int 0x80; ret
        at = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return 0 if ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0 else 1

    ended = in_child(call32)
    return ended != 0, str(ended)


# ---- S9: what comes along
attack("S9 find a descriptor beyond 0 to 2")(lambda: (not CAME_ALONG, str(CAME_ALONG)))


@attack("S9 find a secret in the environment")
def _():
    known = {"HOME", "LANG", "PATH", "PYTHONHASHSEED", "SELF_CWD", "SELF_DEPTH", "SELF_HOME", "TMPDIR", "TZ", "LC_CTYPE"}
    return not set(os.environ) - known, str(sorted(set(os.environ) - known))


@attack("S5 take more memory than the limit")
def _():
    try:
        bytearray(1100 << 20)
        return False, ""
    except MemoryError:
        return True, "MemoryError"


@attack("S4 raise its rights by a program that has more")
def _():
    # The flag that no program starts with more rights than its caller.
    return LIBC.prctl(39, 0, 0, 0, 0) == 1, ""


for title, tried in TRIES:
    try:
        held, said = tried()
    except Exception as fault:  # what breaks an attack did not let it through, and is told
        held, said = None, f"{type(fault).__name__}: {fault}"
    print(json.dumps({"name": "attack.tried", "payload": {"attack": title, "held": held, "said": said}}))
