//! Whole duels in virtual time, on the simulated network and a machine with neighbours: the intervals must contain the true ratio, and
//! equal contestants must not differ.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use webstone_judge::duel::{Looks, of_record};
use webstone_measure::slices::Slice;
use webstone_model::duel::{Contestant, DuelFigure, DuelRecord, DuelStart, SideRun};
use webstone_workload::load::ConnectionPolicy;

use super::order::Order;
use super::side::Side;
use crate::draws::Draws;
use crate::h1::session::Http1;
use crate::layer::Plain;
use crate::observe::Observer;
use crate::shared::Shared;
use crate::simulated_tests::network::{Act, Simulated};
use crate::simulated_tests::{Level, MS, US, response, server};
use crate::sys::Backend as _;
use crate::worker::Worker;

const SLICE_NS: u64 = 10 * MS;
const ROUNDS: usize = 4;
const STARTS: usize = 8;
/// A request on a machine at its best.
const SERVICE_NS: f64 = 1_000.0 * US as f64;

/// Nearly normal, of mean 0 and deviation 1.
fn normal(draws: &mut Draws) -> f64 {
    (0..12).map(|_| draws.uniform()).sum::<f64>() - 6.0
}

/// Exponential, of this mean.
fn wait_ns(draws: &mut Draws, mean_ns: u64) -> u64 {
    (-draws.uniform().ln() * mean_ns as f64) as u64
}

/// What neighbours do to all contestants alike: the speed flips by a third, and they take the CPU for some milliseconds.
struct Machine {
    draws: Draws,
    is_slow: bool,
    flips_ns: u64,
    taken_ns: u64,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut draws = Draws(seed);
        let (flips_ns, taken_ns) = (wait_ns(&mut draws, 400 * MS), wait_ns(&mut draws, 60 * MS));
        Machine { draws, is_slow: false, flips_ns, taken_ns }
    }

    /// A request that begins now and takes this long at best: its CPU time, and how long it takes.
    fn serve(&mut self, now_ns: u64, best_ns: f64) -> (u64, u64) {
        while self.flips_ns <= now_ns {
            self.is_slow = !self.is_slow;
            self.flips_ns += wait_ns(&mut self.draws, 400 * MS);
        }
        let speed = if self.is_slow { 1.35 } else { 1.0 };
        let cpu_ns = (best_ns * speed * (1.0 + 0.02 * normal(&mut self.draws))) as u64;
        let mut took_ns = cpu_ns;
        while self.taken_ns <= now_ns + took_ns {
            took_ns += wait_ns(&mut self.draws, 4 * MS);
            self.taken_ns = now_ns + took_ns + wait_ns(&mut self.draws, 60 * MS);
        }
        (cpu_ns, took_ns)
    }
}

/// One start: both contestants get the load in turns, on one clock.
fn start(machine: &mut Machine, seed: u64, costs: [f64; 2]) -> DuelStart {
    // The machine, the clock, and the CPU time of the slice.
    let now = Rc::new(Cell::new(0_u64));
    let cpu = Rc::new(Cell::new(0_u64));
    let machine = std::cell::RefCell::new(machine);
    let luck = [(); 2].map(|()| 1.0 + 0.003 * normal(&mut machine.borrow_mut().draws));
    let level = Level { clients: 1, ..Level::new(ConnectionPolicy::KeepAlive, &["/"], 1_000 * MS) };
    let job = level.job(1);
    let mut peers = [0, 1].map(|side| {
        let (now, cpu, machine) = (Rc::clone(&now), Rc::clone(&cpu), &machine);
        server(0, move |_, _| {
            let best_ns = SERVICE_NS * costs[side] * luck[side];
            let (cpu_ns, took_ns) = machine.borrow_mut().serve(now.get(), best_ns);
            now.set(now.get() + took_ns);
            cpu.set(cpu.get() + cpu_ns);
            vec![Act::Wait(took_ns), Act::Write(response(10))]
        })
    });
    let mut sides: Vec<_> = peers
        .iter_mut()
        .map(|peer| {
            let network = Simulated::new(peer, level.wire.clone());
            let shared = Arc::new(Shared::new(&job.plan, u64::MAX, 1));
            let seat = job.dealt().unwrap()[0];
            let observer = Observer::new(None, None);
            let plan = job.plan.clone();
            let mut side = Worker::<_, Plain, Http1>::new(plan, shared, seat, network, observer).unwrap();
            Side::begin(&mut side, false);
            Side::open(&mut side);
            side
        })
        .collect();
    let mut order = Order::new(seed, 2);
    let mut slices = Vec::new();
    for _ in 0..ROUNDS * 4 {
        let number = order.next_side();
        let side = &mut sides[number];
        side.backend.sleep_until(now.get());
        let at_ns = now.get();
        cpu.set(0);
        let slice = side.run_slice(SLICE_NS, 1_000 * MS).unwrap();
        now.set(at_ns + slice.took_ns);
        slices.push(Slice {
            side: number as u32,
            at_ns,
            cpu_ns: Some(cpu.get()),
            resting_cpu_ns: Some(0),
            ..slice
        });
    }
    let sides = sides.iter_mut().enumerate().map(|(number, side)| {
        let of_side = || slices.iter().filter(move |slice| slice.side as usize == number);
        let measured = Side::end(side, of_side().map(|slice| slice.took_ns).sum());
        SideRun {
            counts: measured.counts,
            response: measured.response,
            distribution: measured.histograms.response,
            ..SideRun::default()
        }
        .with_slices(of_side())
    });
    DuelStart { at_ns: 0, sides: sides.collect(), slices: slices.clone() }
}

/// For CPU time and for the rate: whether the interval contains the ratio, and whether it excludes 1.
fn held(seed: u64, ratio: f64) -> [(bool, bool); 2] {
    let mut machine = Machine::new(seed);
    let contestants = ["a", "b"].map(|name| Contestant {
        name: name.to_owned(),
        is_started: true,
        ..Contestant::default()
    });
    let mut record = DuelRecord { contestants: contestants.into(), ..DuelRecord::default() };
    record.duel.twin = false;
    // Long enough for all starts, with a look after the last.
    record.duel.at_most.0 = record.duel.restart_every.0 * STARTS as u64;
    assert!(Looks::new(record.duel.starts_min, STARTS as u32).is_look(STARTS));
    for number in 0..STARTS {
        record.starts.push(start(&mut machine, seed.wrapping_add(number as u64), [1.0, ratio]));
    }
    let judgement = of_record(&record);
    [DuelFigure::Cpu, DuelFigure::Rate].map(|figure| {
        let found = judgement.comparisons[0].ratio(figure).expect("both were measured");
        let truth = if figure == DuelFigure::Rate { 1.0 / ratio } else { ratio };
        ((found.low..=found.high).contains(&truth), found.differs())
    })
}

/// Duels that are simulated; more with `WEBSTONE_SIMULATED_DUELS`.
fn duels() -> u64 {
    std::env::var("WEBSTONE_SIMULATED_DUELS").map_or(1_000, |text| text.parse().unwrap())
}

#[test]
fn a_difference_is_in_93_of_100_intervals_whatever_neighbours_do() {
    let all = duels();
    let mut inside = [0; 2];
    for seed in 0..all {
        for (count, (holds, _)) in inside.iter_mut().zip(held(seed, 1.03)) {
            *count += u64::from(holds);
        }
    }
    assert!(inside.iter().all(|inside| inside * 100 >= 93 * all), "{inside:?} of {all}");
}

#[test]
fn equals_differ_in_at_most_5_of_100_duels_whatever_neighbours_do() {
    let all = duels();
    let alarms = (0..all).filter(|seed| held(seed.wrapping_add(1 << 32), 1.0)[0].1).count() as u64;
    assert!(alarms * 100 <= 5 * all, "{alarms} of {all}");
}
