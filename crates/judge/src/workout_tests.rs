//! Workouts whose answers are known.

use super::*;

fn phase(phase: Phase, rate: f64, state: (u64, u64)) -> PhaseRecord {
    PhaseRecord {
        phase,
        service: Service {
            succeeded: 1000,
            request_rate: rate,
            // As far apart as iterations are with no other program running.
            request_rates: [-0.02, -0.01, 0.0, 0.01, 0.02].map(|off| rate * (1.0 + off)).to_vec(),
            latency_p99_s: 0.01,
            ..Service::default()
        },
        misdeeds: Vec::new(),
        state: Some(ServerState {
            head: Some((10, 500)),
            processes: 2,
            threads: 2,
            descriptors: Some(state.0),
            resident_bytes: state.1,
        }),
    }
}

fn workout() -> Workout {
    let during = |state| phase(Phase::During, 600.0, state);
    Workout {
        target: "http://127.0.0.1:1".to_owned(),
        software: None,
        clients: 10,
        offenders: 16,
        vary: false,
        speaks: "HTTP/1.1".to_owned(),
        left_out: Vec::new(),
        seed: 1,
        phases: vec![
            phase(Phase::Before, 1000.0, (20, 10 << 20)),
            during((30, 20 << 20)),
            during((30, 21 << 20)),
            during((30, 21 << 20)),
            phase(Phase::After, 950.0, (30, 20 << 20)),
        ],
    }
}

fn good(workout: &Workout) -> Vec<Option<bool>> {
    workout.answers().into_iter().map(|answer| answer.is_good).collect()
}

#[test]
fn a_server_that_bears_it_passes() {
    let workout = workout();
    assert_eq!(good(&workout), [Some(true); 5]);
    let answers = workout.answers();
    assert_eq!(
        answers[0].evidence,
        "0 of 3000 requests of the well-behaved failed, 0 clients got nothing; at worst 60 % of the rate before, and 1.0 \
         times the 99th percentile"
    );
    assert_eq!(answers[2].evidence, "30, 30, 30 open files after each round");
    assert_eq!(answers[3].evidence, "20.0, 21.0, 21.0 MiB resident after each round");
    assert_eq!(answers[4].evidence, "it answers, and its first process is still 10");
}

#[test]
fn what_grows_in_every_round_leaks() {
    let mut workout = workout();
    for (round, phase) in workout.phases[1..4].iter_mut().enumerate() {
        let state = phase.state.as_mut().unwrap();
        state.descriptors = Some(30 + 5 * round as u64);
        state.resident_bytes = (20 + 2 * round as u64) << 20;
    }
    assert_eq!(good(&workout), [Some(true), Some(true), Some(false), Some(false), Some(true)]);
    // One step alone is not a staircase.
    workout.phases[3].state = workout.phases[2].state.clone();
    assert_eq!(good(&workout), [Some(true); 5]);
}

#[test]
fn errors_starvation_slowness_and_restarts_are_seen() {
    let mut failing = workout();
    failing.phases[2].service.failed = 2;
    assert_eq!(good(&failing)[0], Some(false));
    let mut starving = workout();
    starving.phases[2].service.starved = 1;
    assert_eq!(good(&starving)[0], Some(false));
    // Alone, clients completed no page either.
    starving.phases[0].service.starved = 1;
    assert_eq!(good(&starving)[0], None);
    let mut slow = workout();
    slow.phases[4] = phase(Phase::After, 760.0, (30, 20 << 20));
    assert_eq!(good(&slow)[1], Some(false));
    let mut restarted = workout();
    restarted.phases[3].state.as_mut().unwrap().head = Some((11, 600));
    assert_eq!(good(&restarted)[2..], [None, None, Some(false)]);
    let mut dead = workout();
    dead.phases[4].service = Service { error: Some("nothing listens".to_owned()), ..Service::default() };
    dead.phases[4].state = None;
    assert_eq!(good(&dead)[1], Some(false));
    assert_eq!(dead.answers()[4].evidence, "it no longer answers");
    let mut hidden = workout();
    hidden.phases[2].state.as_mut().unwrap().descriptors = None;
    assert_eq!(good(&hidden), [Some(true), Some(true), None, Some(true), Some(true)]);
    let mut unseen = workout();
    unseen.phases.iter_mut().for_each(|phase| phase.state = None);
    assert_eq!(good(&unseen), [Some(true), Some(true), None, None, Some(true)]);
}

#[test]
fn an_interrupted_workout_accuses_nobody() {
    let mut interrupted = workout();
    interrupted.phases.pop();
    assert_eq!(good(&interrupted), [Some(true), None, Some(true), Some(true), None]);
    interrupted.phases.truncate(1);
    assert_eq!(good(&interrupted), [None; 5]);
    assert_eq!(interrupted.answers()[4].evidence, NOT_MEASURED);
}

#[test]
fn names_are_read_back() {
    for misdeed in Misdeed::ALL {
        assert_eq!(misdeed.name().parse(), Ok(misdeed));
        assert_eq!(serde_json::to_value(misdeed).unwrap(), misdeed.name());
    }
    assert!("loud".parse::<Misdeed>().unwrap_err().to_string().contains("slow-reader"));
}

#[test]
fn recovery_that_noise_could_explain_cannot_be_told() {
    let recovers = |workout: &Workout| {
        let answer = workout.answers().swap_remove(1);
        (answer.is_good, answer.evidence)
    };
    let (good, evidence) = recovers(&workout());
    assert_eq!(good, Some(true));
    assert_eq!(
        evidence,
        "95 % of the rate before (95 % interval 93 to 97 %), at least 80 % required; 0 of 1000 requests failed"
    );
    // One rate each: 95 % and 60 % alike may be noise.
    for rate in [950.0, 600.0] {
        let mut bare = workout();
        bare.phases[0].service.request_rates = vec![1000.0];
        bare.phases[4].service.request_rates = vec![rate];
        assert_eq!(recovers(&bare).0, None);
    }
    // Noise on either side widens the interval: what was unknown stays unknown.
    for (noisy, rate) in [(0, 950.0), (4, 950.0), (0, 700.0), (4, 700.0)] {
        let mut unsure = workout();
        unsure.phases[4] = phase(Phase::After, rate, (30, 20 << 20));
        let rates = &mut unsure.phases[noisy].service.request_rates;
        rates.iter_mut().zip([0.4, 0.9, 1.0, 1.1, 1.6]).for_each(|(rate, factor)| *rate *= factor);
        assert_eq!(recovers(&unsure).0, None, "{:?}", recovers(&unsure));
    }
    // So does what others took of the generator's CPUs: the server may be as fast as before, or slower than it seems.
    for (disturbed, rate) in [(4, 700.0), (0, 950.0)] {
        let mut unsure = workout();
        unsure.phases[4] = phase(Phase::After, rate, (30, 20 << 20));
        unsure.phases[disturbed].service.taken_percent = Some(30.0);
        let (good, evidence) = recovers(&unsure);
        assert_eq!(good, None, "{evidence}");
        assert!(evidence.contains("with up to 30 % of the generator's CPUs taken by others"), "{evidence}");
    }
    let mut failing = workout();
    failing.phases[4].service.failed = 2;
    assert_eq!(recovers(&failing), (Some(false), "2 of 1002 requests failed".to_owned()));
}
