//! How the window grows after it was reduced: CUBIC (RFC 9438), which other clients use too: Chrome, quinn, quic-go, and TCP in Linux.

/// What is left of the window when it is reduced (RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// How steeply it grows, in datagrams per second cubed (section 5).
const C: f64 = 0.4;
/// By how many datagrams per round trip Reno would have to grow to be as fast with this `BETA` (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// See the module comment. Windows are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// Where the window grows slowest, W_max: about where the path was full.
    plateau: f64,
    /// The window before it was reduced.
    prior: f64,
    epoch: Option<Epoch>,
    /// Since when the window has not been used up.
    idle_ns: Option<u64>,
    /// The fraction of a byte by which the window has grown as well.
    rest: f64,
}

/// Since the window was reduced, or since slow start ended.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    since_ns: u64,
    /// When the plateau is reached, K, in seconds.
    plateau_s: f64,
    /// The window that Reno would have, W_est.
    reno: f64,
}

impl Cubic {
    /// The window after a loss.
    pub(super) fn reduced(&mut self, window: u64, datagram: u64, now_ns: u64) -> u64 {
        let before = window as f64;
        // Another flow wants a share: less is taken than before (fast convergence, section 4.7).
        self.plateau = if before < self.plateau { before * (1.0 + BETA) / 2.0 } else { before };
        self.prior = before;
        let after = (before * BETA).max(2.0 * datagram as f64);
        self.begin(after, datagram, now_ns);
        after.round() as u64
    }

    /// Forgets what was learnt of the path; after slow start, the window is taken for its plateau (section 4.8).
    pub(super) fn forget(&mut self) {
        *self = Cubic::default();
    }

    fn begin(&mut self, window: f64, datagram: u64, now_ns: u64) -> Epoch {
        self.plateau = self.plateau.max(window);
        let plateau_s = ((self.plateau - window) / datagram as f64 / C).cbrt();
        let epoch = Epoch { since_ns: now_ns, plateau_s, reno: window };
        (self.epoch, self.idle_ns, self.rest) = (Some(epoch), None, 0.0);
        epoch
    }

    /// The window is not used up: the time until it is does not count (section 4.2).
    pub(super) fn is_idle(&mut self, now_ns: u64) {
        self.idle_ns.get_or_insert(now_ns);
    }

    /// The window after `bytes` of it were acknowledged (sections 4.2 to 4.5).
    pub(super) fn grown(&mut self, window: u64, bytes: u64, datagram: u64, now_ns: u64, rtt_ns: u64) -> u64 {
        let (now, size) = (window as f64, datagram as f64);
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(now, datagram, now_ns),
        };
        if let Some(since_ns) = self.idle_ns.take() {
            epoch.since_ns += now_ns.saturating_sub(since_ns.max(epoch.since_ns));
        }
        let share = bytes as f64 / now;
        epoch.reno += if epoch.reno < self.prior { ALPHA } else { 1.0 } * size * share;
        self.epoch = Some(epoch);
        let at = |ns: u64| {
            let seconds = ns.saturating_sub(epoch.since_ns) as f64 / 1e9 - epoch.plateau_s;
            C * seconds.powi(3) * size + self.plateau
        };
        let grown = match at(now_ns) < epoch.reno {
            true => now.max(epoch.reno),
            false => now + (at(now_ns + rtt_ns).clamp(now, 1.5 * now) - now) * share,
        };
        let grown = grown + self.rest;
        self.rest = grown.fract();
        grown as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: u64 = 1200;

    /// Mean window in datagrams on a path with this round-trip time where one of `every` datagrams is lost, round trip by round trip.
    fn mean_window(every: u64, rtt_ns: u64) -> f64 {
        let (mut cubic, mut window, mut sent) = (Cubic::default(), 10 * DATAGRAM, 0);
        let (mut sum, mut rounds) = (0.0, 0_u64);
        for round in 0..30_000 {
            let now_ns = round * rtt_ns;
            let datagrams = window / DATAGRAM;
            for nth in 0..datagrams {
                let ack_ns = now_ns + rtt_ns * nth / datagrams;
                window = cubic.grown(window, DATAGRAM, DATAGRAM, ack_ns, rtt_ns);
            }
            sent += datagrams;
            if sent >= every {
                sent -= every;
                window = cubic.reduced(window, DATAGRAM, now_ns + rtt_ns);
            }
            if round > 5_000 {
                (sum, rounds) = (sum + window as f64 / DATAGRAM as f64, rounds + 1);
            }
        }
        sum / rounds as f64
    }

    /// RFC 9438 section 5.1: the average window of CUBIC, and that of Reno where CUBIC would be slower.
    #[test]
    fn windows_are_those_of_the_standard() {
        let formula = |loss: f64, rtt_s: f64| {
            let cubic = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * (rtt_s / loss).powf(0.75);
            cubic.max(1.225 / loss.sqrt())
        };
        for (every, rtt_ms) in [(10_000, 100), (100_000, 100), (100_000, 20), (1_000, 10), (1_000, 50)] {
            let mean = mean_window(every, rtt_ms * 1_000_000);
            let expected = formula(1.0 / every as f64, rtt_ms as f64 / 1e3);
            assert!(
                (0.9..1.15).contains(&(mean / expected)),
                "1 of {every}, {rtt_ms} ms: {mean}, {expected}"
            );
        }
    }

    #[test]
    fn a_window_returns_to_its_plateau_when_the_formula_says() {
        const MS: u64 = 1_000_000;
        let mut cubic = Cubic::default();
        let before = 1_000 * DATAGRAM;
        let mut window = cubic.reduced(before, DATAGRAM, 0);
        assert_eq!(window, 700 * DATAGRAM);
        // K = cbrt(1000 * 0.3 / 0.4) = 9.086 s, and a datagram is missing cbrt(1 / 0.4) = 1.357 s before. Reno is far slower on this path.
        let mut reached_ns = 0;
        for now_ns in (0..20_000).map(|ms| ms * MS) {
            // A tenth of a window in a millisecond: its round-trip time is 100 ms.
            window = cubic.grown(window, window / 100, DATAGRAM, now_ns, 100 * MS);
            if window < before - DATAGRAM {
                reached_ns = now_ns;
            }
        }
        assert!((7_650 * MS..7_750 * MS).contains(&reached_ns), "{reached_ns}");
        assert!(window > 1_400 * DATAGRAM, "{window}");
    }

    #[test]
    fn time_in_which_the_window_is_not_used_does_not_count() {
        const SECOND: u64 = 1_000_000_000;
        let grown = |idle_ns: u64| {
            let mut cubic = Cubic::default();
            let window = cubic.reduced(1_000 * DATAGRAM, DATAGRAM, 0);
            let window = cubic.grown(window, window, DATAGRAM, SECOND, SECOND / 10);
            cubic.is_idle(SECOND);
            cubic.is_idle(SECOND + idle_ns / 2);
            cubic.grown(window, window, DATAGRAM, SECOND + idle_ns, SECOND / 10)
        };
        assert_eq!(grown(0), grown(3600 * SECOND));
    }

    #[test]
    fn a_second_loss_below_the_plateau_gives_way_to_other_flows() {
        let mut cubic = Cubic::default();
        let window = cubic.reduced(1_000 * DATAGRAM, DATAGRAM, 0);
        cubic.reduced(window, DATAGRAM, 1);
        assert_eq!(cubic.plateau, 700.0 * DATAGRAM as f64 * 0.85);
        assert_eq!(cubic.reduced(2 * DATAGRAM, DATAGRAM, 2), 2 * DATAGRAM);
        cubic.forget();
        // As after slow start: the window is the plateau.
        let window = cubic.grown(50 * DATAGRAM, 50 * DATAGRAM, DATAGRAM, 10, 1);
        assert!(window > 50 * DATAGRAM && cubic.plateau == 50.0 * DATAGRAM as f64, "{window}");
    }
}
