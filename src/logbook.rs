//! The logbook: `self log` at the command line, where it prints and for whom.
//!
//! At a terminal a pager shows the listing, in local time and colour; in a pipe it is plain text. Decides nothing about the log.
//! The invariant: what is odd about the options is one line on stderr, and exits 2.

use std::io::{self, BufWriter, LineWriter, Write};

use jiff::tz::TimeZone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::browsing::{BrowseFault, Shape};
use crate::following::Follow;
use crate::kernel::Kernel;
use crate::listing::{Manner, Person};
use crate::pager::{Paged, Screen};
use crate::query::{Query, QueryFault, Span, Typed};

/// How long following waits between two looks at the log, in nanoseconds.
const PAUSE_NANOSECONDS: i64 = 150_000_000;

/// How much is printed at a time in a pipe, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// What a person sees the log on, and where.
#[derive(Debug, Clone)]
pub struct Sight {
    /// What the environment says of pagers and terminals.
    pub screen: Screen,
    /// Tells the time zone of the place.
    pub zone: fn() -> TimeZone,
}

/// Where the log is read out.
pub struct Desk<'d> {
    /// Whose log.
    pub kernel: &'d Kernel,
    /// What a person sees it on.
    pub sight: &'d Sight,
    /// Whether stdout is a terminal.
    pub is_terminal: bool,
    /// Says lines on stderr.
    pub say: &'d dyn Fn(&[String]),
}

/// What is to be shown.
enum Wish {
    One(u64),
    Some(Box<Query>, Span),
}

fn decided(typed: &Typed, kernel: &Kernel) -> Result<Wish, QueryFault> {
    match typed.one()? {
        Some(seq) => Ok(Wish::One(seq)),
        None => Ok(Wish::Some(Box::new(typed.query((kernel.world.now)())?), typed.span()?)),
    }
}

impl Desk<'_> {
    /// Does what was typed; its exit status.
    pub fn log(&self, typed: &Typed) -> Result<u8, BrowseFault> {
        let wish = match decided(typed, self.kernel) {
            Ok(wish) => wish,
            Err(fault) => {
                (self.say)(&[fault.to_string()]);
                return Ok(2);
            }
        };
        let shape = self.shape(typed.json);
        match &wish {
            Wish::Some(query, span) if typed.follow => {
                let earlier = typed.starts_earlier().then_some(*span);
                self.follow(&Follow { query, earlier, shape: &shape, pause: &still_read, say: self.say }).map(|()| 0)
            }
            Wish::One(_) | Wish::Some(..) if self.is_terminal && !typed.json => self.page(&wish, &shape),
            Wish::One(_) | Wish::Some(..) => {
                let mut out = BufWriter::with_capacity(PIECE_BYTES, io::stdout());
                let shown = self.show(&wish, &shape, &mut out, &|| true);
                out.flush().map_err(BrowseFault::Out)?;
                (self.say)(&shown?);
                Ok(0)
            }
        }
    }

    fn shape(&self, json: bool) -> Shape {
        if json {
            return Shape::Stored { terminal: self.is_terminal };
        }
        let person = self.is_terminal.then(|| Person {
            now: (self.kernel.world.now)(),
            zone: (self.sight.zone)(),
            colour: self.sight.screen.has_colour(),
        });
        Shape::Listed(Manner { person })
    }

    fn show(
        &self,
        wish: &Wish,
        shape: &Shape,
        out: &mut dyn Write,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, BrowseFault> {
        match wish {
            Wish::One(seq) => self.kernel.tell(*seq, shape, out),
            Wish::Some(query, span) => self.kernel.browse(query, *span, shape, out, goes_on),
        }
    }

    /// Shows it in the pager. Who leaves the pager has seen enough.
    fn page(&self, wish: &Wish, shape: &Shape) -> Result<u8, BrowseFault> {
        let mut paged = Paged::on(&self.sight.screen);
        let goes_on = paged.watch();
        let shown = {
            let mut out = LineWriter::new(&mut paged);
            let shown = self.show(wish, shape, &mut out, &goes_on);
            shown.and_then(|words| out.flush().map(|()| words).map_err(BrowseFault::Out))
        };
        let is_paging = paged.is_paging();
        let ran = paged.end();
        match shown {
            Err(BrowseFault::Out(fault)) if is_paging && fault.kind() == io::ErrorKind::BrokenPipe => {}
            shown => (self.say)(&shown?),
        }
        Ok(u8::from(!ran))
    }

    fn follow(&self, follow: &Follow<'_>) -> Result<(), BrowseFault> {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, io::stdout());
        self.kernel.follow(follow, &mut out)?;
        Err(BrowseFault::Out(io::ErrorKind::BrokenPipe.into()))
    }
}

/// Waits a moment; `false` once the other end of stdout is closed.
fn still_read() -> bool {
    let out = io::stdout();
    let moment = Timespec { tv_sec: 0, tv_nsec: PAUSE_NANOSECONDS };
    let mut ends = [PollFd::new(&out, PollFlags::empty())];
    let _ = poll(&mut ends, Some(&moment));
    !ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}
