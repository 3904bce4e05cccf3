//! The local server: `self serve`, from the address it binds to its last answer.
//!
//! Here, and in `connection`, `routes` and `stream`, the kernel is async, and here only it touches the network. Cannot name `hear`.
//! The invariant: what is bound beyond this machine has a token, and when the server ends no command of it is half recorded.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::bind::Bind;
use crate::connection::{self, Board, Seat};
use crate::gate::{Gate, Token, host_of};
use crate::kernel::{Error, Kernel};
use crate::routes::routes;
use crate::serving::Site;
use crate::shared::{Say, Shared, WORKERS_MAX};
use crate::stop::Stop;

/// How long answers that are under way may take when the server ends.
const END_WAITS: Duration = Duration::from_millis(1_200);

/// How long the seal at the end may take.
const SEAL_WAITS: Duration = Duration::from_millis(500);

/// How long a connection that could not be taken is waited for anew.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many threads work at the same time: what is limited, the pieces of the log that are being sent, and the seal.
const THREADS_MAX: usize = WORKERS_MAX + 4;

/// How long a thread without work stays.
const THREAD_STAYS: Duration = Duration::from_secs(1);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// `SELF_BIND` is odd.
    #[error("SELF_BIND is neither a host nor a host and a port")]
    Odd,
    /// The host has no address.
    #[error("could not find the address of `{host}`: {source}")]
    NoAddress {
        /// The host.
        host: String,
        /// Why not.
        source: io::Error,
    },
    /// The port is taken.
    #[error("could not listen on {0}: port {port} is in use", port = .0.port())]
    InUse(SocketAddr),
    /// Listening failed otherwise.
    #[error("could not listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The system lacks what a server needs.
    #[error("could not start the server: {0}")]
    Start(io::Error),
    /// The home could not be opened.
    #[error(transparent)]
    Home(#[from] Error),
}

impl ServeError {
    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            ServeError::Odd => 2,
            ServeError::Home(fault) => fault.status(),
            ServeError::NoAddress { .. } | ServeError::InUse(_) | ServeError::Listen { .. } | ServeError::Start(_) => 1,
        }
    }

    /// The remedy, as a line.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::Odd => Some("SELF_BIND=127.0.0.1:7777, or SELF_BIND=localhost".to_owned()),
            ServeError::InUse(address) => {
                let next = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(0));
                Some(format!("end what listens there, or choose another port: SELF_BIND={next}"))
            }
            ServeError::NoAddress { .. } | ServeError::Listen { .. } => {
                Some("set SELF_BIND to an address of this machine".to_owned())
            }
            ServeError::Home(fault) => fault.hint(),
            ServeError::Start(_) => None,
        }
    }
}

/// What the caller wants of the server.
pub struct Wishes {
    /// `SELF_BIND`, as it was set.
    pub bind: Option<OsString>,
    /// Whether a token is asked for on the loopback address too.
    pub token: bool,
    /// What opens the front page's address, if it is to be opened.
    pub open: Option<fn(&str) -> io::Result<()>>,
    /// Prints the address, a line.
    pub print: fn(&str) -> io::Result<()>,
    /// Says words to the caller.
    pub say: Say,
    /// Whether a person reads them.
    pub is_watched: bool,
}

/// Serves the home until a signal comes; gives its number.
///
/// # Errors
/// When the server did not start.
pub fn serve(kernel: &Kernel, wishes: &Wishes) -> Result<u8, ServeError> {
    let bind = Bind::read(wishes.bind.as_deref()).ok_or(ServeError::Odd)?;
    let stop = Stop::on_signals().map_err(ServeError::Start)?;
    let progress = |line: &str| {
        if wishes.is_watched {
            (wishes.say)(&[line.to_owned()]);
        }
    };
    let (site, words) = Site::open(kernel, stop.clone(), progress)?;
    (wishes.say)(&words);
    let listener = listen(&bind)?;
    let address = listener.local_addr().map_err(ServeError::Start)?;
    let token = match wishes.token || !address.ip().is_loopback() {
        true => Some(Token::new(site.random()?)),
        false => None,
    };
    let machine = rustix::system::uname().nodename().to_str().map(str::to_owned).ok();
    announce(wishes, address, &bind, machine.as_deref(), token.as_ref());
    let gate = Gate::new(address.ip(), address.port(), &bind.host, machine.as_deref(), token);
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .thread_keep_alive(THREAD_STAYS)
        .build()
        .map_err(ServeError::Start)?;
    let shared = Arc::new(Shared::new(site, gate, Arc::clone(&wishes.say)));
    runtime.block_on(attend(listener, &shared, &stop)).map_err(ServeError::Start)?;
    // What is still under way now waits for a lock or a disk; it lands whole or not at all.
    runtime.shutdown_background();
    Ok(stop.signal().unwrap_or_default())
}

fn listen(bind: &Bind) -> Result<TcpListener, ServeError> {
    let no_address = |source| ServeError::NoAddress { host: bind.host.clone(), source };
    let mut addresses = (bind.host.as_str(), bind.port).to_socket_addrs().map_err(no_address)?;
    let address = addresses.next().ok_or_else(|| no_address(io::ErrorKind::NotFound.into()))?;
    let listener = TcpListener::bind(address).map_err(|source| {
        let is_in_use = source.kind() == io::ErrorKind::AddrInUse;
        if is_in_use { ServeError::InUse(address) } else { ServeError::Listen { address, source } }
    })?;
    listener.set_nonblocking(true).map_err(ServeError::Start)?;
    Ok(listener)
}

/// Prints where the server is, with the token in the link where there is one.
fn announce(wishes: &Wishes, address: SocketAddr, bind: &Bind, machine: Option<&str>, token: Option<&Token>) {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => machine.unwrap_or("127.0.0.1").to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => machine.unwrap_or("[::1]").to_owned(),
        _ if bind.host.parse::<IpAddr>().is_err() => bind.host.clone(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => host_of(ip),
    };
    let link = format!("http://{host}:{}/", address.port());
    let shown = token.map_or_else(|| link.clone(), |token| format!("{link}?t={}", token.text()));
    // Where nobody reads what is printed, the server serves all the same.
    let _ = (wishes.print)(&shown);
    if !address.ip().is_loopback() {
        let line = "whoever has this link can read this home and run its commands; it travels unencrypted";
        (wishes.say)(&[line.to_owned()]);
    }
    match (wishes.open, token) {
        (None, _) => {}
        (Some(_), Some(_)) => {
            (wishes.say)(&["the link is not opened for you: its token would stand in a list of arguments".to_owned()]);
        }
        (Some(open), None) => {
            if let Err(fault) = open(&link) {
                (wishes.say)(&[format!("could not open a browser: {fault}")]);
            }
        }
    }
}

/// Takes connections until a signal comes, then lets what is under way end, and seals the log.
async fn attend(listener: TcpListener, shared: &Arc<Shared>, stop: &Stop) -> io::Result<()> {
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [interrupt, terminate, hangup] = &mut signals;
    let mut over = pin!(async {
        tokio::select! { () = came(interrupt) => {}, () = came(terminate) => {}, () = came(hangup) => {} }
    });
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = routes(Arc::clone(shared));
    let board = Arc::new(Board::default());
    let looking = Arc::clone(shared);
    tokio::spawn(async move { looking.watch().await });
    let deriving = Arc::clone(shared);
    tokio::spawn(async move { deriving.derive().await });
    'open: while stop.signal().is_none() {
        let accepted = tokio::select! { () = &mut over => break, accepted = listener.accept() => accepted };
        match accepted {
            Ok((stream, peer)) => {
                while !board.makes_room() {
                    tokio::select! { () = &mut over => break 'open, () = board.freed() => {} }
                }
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection::serve(Seat::take(&board), stream, peer, Arc::clone(shared), router.clone()));
            }
            // Descriptors ran out, or the client was gone already.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    shared.closing.send_replace(true);
    let emptied = async {
        while !board.is_empty() {
            board.freed().await;
        }
    };
    let _ = timeout(END_WAITS, emptied).await;
    let site = Arc::clone(&shared.site);
    let sealed = timeout(SEAL_WAITS, tokio::task::spawn_blocking(move || site.seal())).await;
    match sealed {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(fault))) => (shared.say)(&[fault.to_string()]),
        // A long stretch without a seal takes longer than a server may take to end.
        Ok(Err(_)) | Err(_) => (shared.say)(&["the log was not sealed in time; self verify --seal does it".to_owned()]),
    }
    Ok(())
}

async fn came(signal: &mut io::Result<Signal>) {
    match signal {
        Ok(signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
