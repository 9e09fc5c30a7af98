//! The threads of a duel. Each has its share of every side's clients, and all change sides together: they meet when a slice begins and
//! when it has drained. The first decides whose turn it is, and reads what the contestants' processes have used while none has load.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use webstone_measure::metrics::Measured;
use webstone_measure::slices::Slice;

use super::order::Order;
use super::side::Side;
use super::{DuelJob, Ending, SideMeter, SideUse};
use crate::h1::pipeline::Pipelined;
use crate::h1::session::Http1;
use crate::h2::session::Http2;
use crate::h3::session::Http3;
use crate::layer::{Layer, Plain};
use crate::level::{EngineError, LevelJob};
use crate::observe::Observer;
use crate::plan::Plan;
use crate::seats::Seats;
use crate::session::Session;
use crate::shared::Shared;
use crate::sys;
use crate::sys::clock::now_ns;
use crate::sys::thread::cpu_use;
use crate::tls::Tls;
use crate::worker::{Seat, Worker};

/// Side number that means: no more slices.
const OVER: usize = usize::MAX;

/// Where the threads meet, and what they tell each other there.
struct Meeting {
    barrier: Barrier,
    /// Whose turn it is.
    turn: AtomicUsize,
    /// Whether slices count, or warm up.
    counts: AtomicBool,
    /// What each thread did of the slice.
    parts: Mutex<Vec<io::Result<Slice>>>,
}

pub(super) fn run(
    job: &DuelJob,
    meter: &mut dyn SideMeter,
    end: &(dyn Fn() -> Ending + Sync),
    sink: &mut dyn FnMut(Slice),
) -> Result<Vec<Measured>, EngineError> {
    let seats = seats(job)?;
    let threads = seats.first().map_or(0, Vec::len);
    let meeting = Meeting {
        barrier: Barrier::new(threads),
        turn: AtomicUsize::new(OVER),
        counts: AtomicBool::new(false),
        parts: Mutex::new(Vec::with_capacity(threads)),
    };
    let (slices, received) = channel();
    std::thread::scope(|scope| {
        let mut lead = Some(Lead::new(job, meter, end, slices));
        let mut lanes = Vec::new();
        for number in 0..threads {
            let seats = seats.iter().map(|side| side[number]).collect();
            let lane = Lane { job, meeting: &meeting, seats };
            let lead = lead.take();
            let name = format!("worker-{number}");
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, move || lane.run(lead));
            // The others would wait for it for ever.
            lanes.push(thread.expect("a duel needs its threads"));
        }
        received.iter().for_each(sink);
        let mut measured: Vec<Measured> = job.sides.iter().map(|_| Measured::default()).collect();
        for (number, lane) in lanes.into_iter().enumerate() {
            let parts = lane.join().map_err(|_| EngineError::WorkerPanicked(number))?;
            let parts = parts
                .map_err(|source| EngineError::System { what: "waiting for sockets (epoll_wait)", source })?;
            for (whole, part) in measured.iter_mut().zip(parts) {
                whole.merge_parallel(part);
            }
        }
        Ok(measured)
    })
}

/// By side, the clients of each thread.
fn seats(job: &DuelJob) -> Result<Vec<Vec<Seat>>, EngineError> {
    let each = job.sides.iter().map(|plan| {
        let groups = job.clients.div_ceil(plan.clients_per_connection);
        let seats = Seats::all_here(job.threads.min(groups).max(1));
        LevelJob { rate: job.rate, seats, ..LevelJob::new(plan.clone(), job.clients) }.dealt()
    });
    each.collect()
}

/// One thread, with its share of every side's clients.
struct Lane<'a> {
    job: &'a DuelJob,
    meeting: &'a Meeting,
    seats: Vec<Seat>,
}

impl Lane<'_> {
    fn run(self, mut lead: Option<Lead<'_>>) -> io::Result<Vec<Measured>> {
        let mut sides = self.sides();
        let mut slices_ns = vec![0; self.seats.len()];
        let mut is_open = false;
        loop {
            if let Some(lead) = &mut lead {
                lead.call(self.meeting);
            }
            self.meeting.barrier.wait();
            let turn = self.meeting.turn.load(SeqCst);
            if turn == OVER {
                break;
            }
            let opens = !is_open && self.meeting.counts.load(SeqCst);
            is_open |= opens;
            let part = self.slice(&mut sides, turn, opens);
            if let Ok(slice) = &part
                && is_open
            {
                slices_ns[turn] += slice.took_ns;
            }
            self.meeting.parts().push(part);
            self.meeting.barrier.wait();
            if let Some(lead) = &mut lead {
                lead.note(self.meeting, turn);
            }
        }
        if let Some(error) = lead.and_then(|lead| lead.error) {
            return Err(error);
        }
        Ok(sides?.iter_mut().zip(slices_ns).map(|(side, slices_ns)| side.end(slices_ns)).collect())
    }

    /// Its sides. Made by the thread that runs them.
    fn sides(&self) -> io::Result<Vec<Box<dyn Side>>> {
        let cpus = &self.job.sides[0].cpus;
        let cpu = cpus.get(self.seats[0].number % cpus.len().max(1)).copied();
        let cpu = cpu.filter(|cpu| sys::thread::pin(*cpu).is_ok());
        if self.job.rate.is_some() {
            sys::thread::wake_punctually();
        }
        let sides = self.job.sides.iter().zip(&self.seats).map(|(plan, seat)| {
            let mut side = side(plan, Seat { cpu, number: 0, ..*seat })?;
            side.begin(self.job.stays_awake);
            Ok(side)
        });
        sides.collect()
    }

    /// This thread's part of a slice. Whatever happens in it, the thread continues: the others wait for it.
    fn slice(
        &self,
        sides: &mut io::Result<Vec<Box<dyn Side>>>,
        turn: usize,
        opens: bool,
    ) -> io::Result<Slice> {
        let sides = sides.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let (length, drain) = (self.job.slice.as_nanos() as u64, self.job.drain.as_nanos() as u64);
        let waited = cpu_use().run_queue_ns;
        let part = catch_unwind(AssertUnwindSafe(|| {
            if opens {
                sides.iter_mut().for_each(|side| side.open());
            }
            sides[turn].run_slice(length, drain)
        }));
        let mut slice = part.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
        slice.generator_waited_ns = waited.zip(cpu_use().run_queue_ns).map(|(before, after)| after - before);
        Ok(slice)
    }
}

impl Meeting {
    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<io::Result<Slice>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What only the first thread does: it announces the slices and puts their parts together.
struct Lead<'a> {
    job: &'a DuelJob,
    meter: &'a mut dyn SideMeter,
    end: &'a (dyn Fn() -> Ending + Sync),
    slices: Sender<Slice>,
    order: Order,
    begun_ns: u64,
    /// When the first slice that counts began.
    opened_ns: Option<u64>,
    /// When the current slice began, and what its side had used by then.
    slice: (u64, SideUse),
    /// What each side had used after its last slice, or when slices began to count.
    rested: Vec<SideUse>,
    error: Option<io::Error>,
}

impl<'a> Lead<'a> {
    fn new(
        job: &'a DuelJob,
        meter: &'a mut dyn SideMeter,
        end: &'a (dyn Fn() -> Ending + Sync),
        slices: Sender<Slice>,
    ) -> Lead<'a> {
        let order = Order::new(job.seed, job.sides.len());
        let rested = vec![SideUse::default(); job.sides.len()];
        let begun_ns = now_ns();
        let slice = (begun_ns, SideUse::default());
        Lead { job, meter, end, slices, order, begun_ns, opened_ns: None, slice, rested, error: None }
    }

    /// Announces whose turn it is, or that there are no more.
    fn call(&mut self, meeting: &Meeting) {
        let mut now = now_ns();
        let ending = (self.end)();
        if self.order.is_between_rounds() {
            if self.opened_ns.is_none() && now >= self.begun_ns + self.job.warmup.as_nanos() as u64 {
                now = self.open();
                meeting.counts.store(true, SeqCst);
            }
            let is_long_enough =
                self.opened_ns.is_some_and(|opened| now >= opened + self.job.duration.as_nanos() as u64);
            if is_long_enough || ending == Ending::WithRound {
                return meeting.turn.store(OVER, SeqCst);
            }
        }
        if self.error.is_some() || ending == Ending::WithSlice {
            return meeting.turn.store(OVER, SeqCst);
        }
        let turn = self.order.next_side();
        meeting.turn.store(turn, SeqCst);
        self.slice = (now, self.meter.before(turn));
    }

    /// Slices count from now on: what a side used in the warm-up belongs to none of them. Returns when.
    fn open(&mut self) -> u64 {
        self.meter.open();
        for (side, rested) in self.rested.iter_mut().enumerate() {
            *rested = self.meter.before(side);
        }
        let now = now_ns();
        self.opened_ns = Some(now);
        now
    }

    /// A slice is over on every thread.
    fn note(&mut self, meeting: &Meeting, turn: usize) {
        let used = self.meter.after(turn);
        let (began_ns, before) = self.slice;
        let rested = std::mem::replace(&mut self.rested[turn], used);
        let mut slice = Slice {
            side: turn as u32,
            cpu_ns: since(before.cpu_ns, used.cpu_ns),
            resting_cpu_ns: since(rested.cpu_ns, before.cpu_ns),
            waited_ns: since(before.waited_ns, used.waited_ns),
            ..Slice::default()
        };
        for part in meeting.parts().drain(..) {
            match part {
                Ok(part) => add(&mut slice, part),
                Err(error) => self.error = Some(error),
            }
        }
        if let Some(opened_ns) = self.opened_ns.filter(|_| self.error.is_none()) {
            slice.at_ns = began_ns.saturating_sub(opened_ns);
            // The receiver is there until all threads have ended.
            let _ = self.slices.send(slice);
        }
    }
}

/// Adds what another thread did of the same slice.
fn add(whole: &mut Slice, part: Slice) {
    whole.took_ns = whole.took_ns.max(part.took_ns);
    whole.requests += part.requests;
    whole.errors += part.errors;
    whole.bytes += part.bytes;
    whole.response_ns += part.response_ns;
    whole.unanswered += part.unanswered;
    whole.generator_waited_ns = match (whole.generator_waited_ns, part.generator_waited_ns) {
        (Some(whole), Some(part)) => Some(whole + part),
        (whole, part) => whole.or(part),
    };
}

fn since(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    before.zip(after).map(|(before, after)| after.saturating_sub(before))
}

/// A worker is compiled for each protocol over each layer, so that a request pays only for its own.
fn side(plan: &Arc<Plan>, seat: Seat) -> io::Result<Box<dyn Side>> {
    match (plan.is_h2(), plan.tls.is_some()) {
        _ if plan.is_h3() => worker::<Plain, Http3>(plan, seat),
        (false, false) if plan.is_pipelined() => worker::<Plain, Pipelined>(plan, seat),
        (false, true) if plan.is_pipelined() => worker::<Tls, Pipelined>(plan, seat),
        (false, false) => worker::<Plain, Http1>(plan, seat),
        (false, true) => worker::<Tls, Http1>(plan, seat),
        (true, false) => worker::<Plain, Http2>(plan, seat),
        (true, true) => worker::<Tls, Http2>(plan, seat),
    }
}

fn worker<L: Layer + 'static, P: Session + 'static>(plan: &Arc<Plan>, seat: Seat) -> io::Result<Box<dyn Side>>
where
    L::Shared: 'static,
    P::Memory: 'static,
{
    let backend = sys::Epoll::new(plan.receives_bodies())?;
    let shared = Arc::new(Shared::new(plan, u64::MAX, 1));
    Ok(Box::new(Worker::<_, L, P>::new(plan.clone(), shared, seat, backend, Observer::new(None, None))?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use webstone_workload::load::ConnectionPolicy;

    use super::*;
    use crate::simulated_tests::{Level, MS};

    /// A side that uses a millisecond between any two readings; its whole use is known from the first on.
    #[derive(Default)]
    struct Working {
        used_ns: u64,
        is_open: bool,
    }

    impl Working {
        fn used(&mut self) -> SideUse {
            self.used_ns += MS;
            SideUse { cpu_ns: Some(self.used_ns), ..SideUse::default() }
        }
    }

    impl SideMeter for Working {
        fn open(&mut self) {
            self.is_open = true;
        }

        fn before(&mut self, _: usize) -> SideUse {
            self.used()
        }

        fn after(&mut self, _: usize) -> SideUse {
            self.used()
        }
    }

    fn job() -> DuelJob {
        let plan = Level::new(ConnectionPolicy::KeepAlive, &["/"], MS).job(1).plan;
        DuelJob {
            sides: vec![plan.clone(), plan],
            clients: 1,
            rate: None,
            threads: 1,
            seed: 1,
            slice: Duration::from_millis(1),
            drain: Duration::from_secs(1),
            stays_awake: false,
            warmup: Duration::ZERO,
            duration: Duration::from_secs(3_600),
        }
    }

    fn meeting() -> Meeting {
        Meeting {
            barrier: Barrier::new(1),
            turn: AtomicUsize::new(OVER),
            counts: AtomicBool::new(false),
            parts: Mutex::new(Vec::new()),
        }
    }

    /// Announces slices, which take no time, until there are no more, but at most `most`. Returns them.
    fn announced(end: &(dyn Fn() -> Ending + Sync), most: usize) -> Vec<Slice> {
        let (job, meeting, mut meter) = (job(), meeting(), Working::default());
        let (slices, received) = channel();
        let mut lead = Lead::new(&job, &mut meter, end, slices);
        for _ in 0..most {
            lead.call(&meeting);
            match meeting.turn.load(SeqCst) {
                OVER => break,
                turn => lead.note(&meeting, turn),
            }
        }
        drop(lead);
        assert!(meter.is_open);
        received.iter().collect()
    }

    #[test]
    fn rest_is_known_from_the_first_slice_on() {
        let slices = announced(&|| Ending::InTime, 4);
        assert_eq!(slices.len(), 4);
        for slice in &slices {
            assert!(slice.cpu_ns == Some(MS) && slice.resting_cpu_ns >= Some(MS), "{slice:?}");
        }
    }

    #[test]
    fn a_start_ends_with_its_round_or_with_its_slice() {
        let at = |count: usize, ending: Ending| {
            let asked = AtomicUsize::new(0);
            let end = move || match asked.fetch_add(1, SeqCst) {
                before if before < count => Ending::InTime,
                _ => ending,
            };
            announced(&end, 100).len()
        };
        assert_eq!(at(5, Ending::WithRound), 8, "a round has four slices");
        assert_eq!(at(5, Ending::WithSlice), 5);
        assert_eq!(at(0, Ending::WithRound), 0);
    }
}
