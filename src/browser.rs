//! The browser: the program that opens an address on this machine.
//!
//! Starts it and lets it go. The invariant: it gets an address without a secret, and none of the server's descriptors.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The programs that open an address, the first that is there.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens an address.
///
/// # Errors
/// When there is no such program, or it does not start.
pub fn open(address: &str) -> io::Result<()> {
    let mut fault = io::Error::from(io::ErrorKind::NotFound);
    for opener in OPENERS {
        let mut command = Command::new(opener);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        match command.spawn() {
            Ok(mut child) => {
                // Waited for by nobody else: it may be the browser itself, and stay.
                std::thread::spawn(move || child.wait());
                return Ok(());
            }
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
            Err(other) => fault = other,
        }
    }
    Err(fault)
}
