//! A convoy: loads that come while one is under way go together, once it has arrived.
//!
//! Whoever finds nobody leading leads, with all loads that wait; nobody waits for a load that has not come. Knows neither the log nor a
//! home. The invariant: each load goes once, in the order in which they came, and each who brought one hears what became of it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The loads of one place, on their way.
#[derive(Debug)]
pub(crate) struct Convoy<L, A> {
    lane: Mutex<Lane<L, A>>,
    moved: Condvar,
}

#[derive(Debug)]
struct Lane<L, A> {
    waiting: Vec<(u64, L)>,
    is_led: bool,
    tickets: u64,
    /// What became of the loads that went, until those who brought them hear it; `None` if their leader was lost.
    arrived: BTreeMap<u64, Option<A>>,
}

impl<L, A> Default for Convoy<L, A> {
    fn default() -> Convoy<L, A> {
        let lane = Lane { waiting: Vec::new(), is_led: false, tickets: 0, arrived: BTreeMap::new() };
        Convoy { lane: Mutex::new(lane), moved: Condvar::new() }
    }
}

/// The one who leads; when it is done, or lost, somebody else may.
struct Leader<'c, L, A> {
    convoy: &'c Convoy<L, A>,
    tickets: Vec<u64>,
}

impl<L, A> Drop for Leader<'_, L, A> {
    fn drop(&mut self) {
        let mut lane = self.convoy.lane();
        lane.is_led = false;
        for ticket in &self.tickets {
            lane.arrived.entry(*ticket).or_insert(None);
        }
        drop(lane);
        self.convoy.moved.notify_all();
    }
}

impl<L, A> Convoy<L, A> {
    /// A panic elsewhere spoils nothing: what the lane holds is whole between two statements.
    fn lane(&self) -> MutexGuard<'_, Lane<L, A>> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a load, and waits until it went. `lead` takes the loads that go together and says what became of each, in their
    /// order; it is called if this one leads. `None` if the leader was lost under way.
    pub(crate) fn join(&self, load: L, lead: impl FnOnce(Vec<L>) -> Vec<A>) -> Option<A> {
        let mut lane = self.lane();
        let own = lane.tickets;
        lane.tickets += 1;
        lane.waiting.push((own, load));
        while lane.is_led && !lane.arrived.contains_key(&own) {
            lane = self.moved.wait(lane).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(arrived) = lane.arrived.remove(&own) {
            return arrived;
        }
        lane.is_led = true;
        let (tickets, loads): (Vec<u64>, Vec<L>) = std::mem::take(&mut lane.waiting).into_iter().unzip();
        drop(lane);
        let mut leader = Leader { convoy: self, tickets };
        let mut became = lead(loads).into_iter();
        let mut lane = self.lane();
        lane.arrived.extend(leader.tickets.drain(..).map(|ticket| (ticket, became.next())));
        lane.arrived.remove(&own).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::scope;
    use std::time::{Duration, Instant};

    /// Waits until so many loads wait for the one under way.
    fn wait_for(convoy: &Convoy<u32, u32>, waiting: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while convoy.lane().waiting.len() < waiting {
            assert!(Instant::now() < until, "{waiting} loads never came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_comes_while_one_is_under_way_goes_together() {
        let convoy = Convoy::<u32, u32>::default();
        let journeys = Mutex::new(Vec::new());
        let go = |loads: Vec<u32>| {
            journeys.lock().unwrap().push(loads.clone());
            loads.iter().map(|load| load * 10).collect::<Vec<_>>()
        };
        let (set_off, under_way) = channel();
        let (arrive, arriving) = channel::<()>();
        scope(|scope| {
            let (convoy, go) = (&convoy, &go);
            let first = scope.spawn(move || {
                convoy.join(1, |loads| {
                    set_off.send(()).unwrap();
                    arriving.recv().unwrap();
                    go(loads)
                })
            });
            under_way.recv().unwrap();
            let mut others = Vec::new();
            for load in 2..=8 {
                others.push(scope.spawn(move || convoy.join(load, go)));
                wait_for(convoy, others.len());
            }
            arrive.send(()).unwrap();
            assert_eq!(first.join().unwrap(), Some(10));
            for (other, load) in others.into_iter().zip(2..) {
                assert_eq!(other.join().unwrap(), Some(load * 10));
            }
        });
        assert_eq!(*journeys.lock().unwrap(), [vec![1], vec![2, 3, 4, 5, 6, 7, 8]]);
        assert!(convoy.lane().arrived.is_empty());
    }

    #[test]
    fn a_leader_that_is_lost_leaves_nobody_waiting() {
        let convoy = Convoy::<u32, u32>::default();
        let (set_off, under_way) = channel();
        let (arrive, arriving) = channel::<()>();
        scope(|scope| {
            let convoy = &convoy;
            let led = scope.spawn(move || {
                convoy.join(1, |_| {
                    set_off.send(()).unwrap();
                    arriving.recv().unwrap();
                    std::panic::resume_unwind(Box::new("lost"))
                })
            });
            under_way.recv().unwrap();
            let next = scope.spawn(move || convoy.join(2, |loads| loads));
            wait_for(convoy, 1);
            arrive.send(()).unwrap();
            assert!(led.join().is_err());
            assert_eq!(next.join().unwrap(), Some(2));
        });
        assert_eq!(convoy.join(3, |_| Vec::new()), None, "who is told nothing was lost");
        assert_eq!(convoy.join(4, |loads| loads), Some(4));
    }
}
