#!/usr/bin/env python3
"""Makes statistics.json: values that webstone's statistics are held against (crates/judge/tests/statistics.rs).

Computed by SciPy (https://scipy.org) and, where SciPy has no such routine, by the definition of the source written
out in NumPy the slow and obvious way. To make it again:

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1 numpy==2.4.6
    venv/bin/python statistics.py > statistics.json

    t quantile          scipy.stats.t.ppf
    mean, t             scipy.stats.ttest_1samp(...).confidence_interval(0.95)
    ratio, t            ends where scipy.stats.ttest_ind_from_stats (Welch) of the logarithms, with the standard errors of
                        the delta method, has p = 0.05; found with scipy.optimize.brentq
    mean, bootstrap     scipy.stats.bootstrap(method="BCa"), 400,000 resamples
    ratio, bootstrap    the same of two samples
    modified z-score    scipy.stats.median_abs_deviation(scale="normal")
    scalability         scipy.optimize.curve_fit of the Universal Scalability Law, coefficients from 0 on
    MSER-5              the definition of White (1997), every truncation point of the first half by itself
"""

import json
import math
import sys

import numpy
import scipy
from scipy import optimize, stats

random = numpy.random.default_rng(1997)


def listed(values):
    return [float(value) for value in values]


def rates(n, mean, deviation):
    return numpy.round(random.normal(mean, deviation, n), 3)


def mean_t(sample):
    found = stats.ttest_1samp(sample, 0.0).confidence_interval(0.95)
    return {"sample": listed(sample), "point": float(numpy.mean(sample)), "low": found.low, "high": found.high}


def ratio_t(a, b):
    # Standard deviations of the logarithm by the delta method: s / mean.
    log = [(math.log(numpy.mean(x)), numpy.std(x, ddof=1) / numpy.mean(x), len(x)) for x in (a, b)]

    def excess(shift):
        (ma, sa, na), (mb, sb, nb) = log
        return stats.ttest_ind_from_stats(ma - shift, sa, na, mb, sb, nb, equal_var=False).pvalue - 0.05

    point = log[0][0] - log[1][0]
    reach = 60 * math.sqrt(log[0][1] ** 2 + log[1][1] ** 2)
    low = optimize.brentq(excess, point - reach, point, xtol=1e-15, rtol=1e-14)
    high = optimize.brentq(excess, point, point + reach, xtol=1e-15, rtol=1e-14)
    return {"a": listed(a), "b": listed(b), "point": math.exp(point), "low": math.exp(low), "high": math.exp(high)}


def bootstrap(samples, statistic):
    found = stats.bootstrap(
        samples, statistic, n_resamples=400_000, batch=20_000, method="BCa", rng=numpy.random.default_rng(1987),
        vectorized=True,
    ).confidence_interval
    return {
        "samples": [listed(sample) for sample in samples],
        "point": float(statistic(*samples, axis=-1)),
        "low": float(found.low),
        "high": float(found.high),
    }


def mean_bootstrap(sample):
    return bootstrap((sample,), lambda x, axis: numpy.mean(x, axis=axis))


def ratio_bootstrap(a, b):
    return bootstrap((a, b), lambda x, y, axis: numpy.mean(x, axis=axis) / numpy.mean(y, axis=axis))


def modified_z(sample):
    return {
        "sample": listed(sample),
        "z": listed((sample - numpy.median(sample)) / stats.median_abs_deviation(sample, scale="normal")),
    }


def mser5(series):
    batches = [numpy.mean(series[i : i + 5]) for i in range(0, len(series) - len(series) % 5, 5)]
    n = len(batches)
    # Points in the first half only: White rejects those in the second.
    errors = [sum((y - numpy.mean(batches[d:])) ** 2 for y in batches[d:]) / (n - d) ** 2 for d in range(n // 2 + 1)]
    cut = int(numpy.argmin(errors))
    return {
        "series": listed(series),
        "truncate": cut * 5,
        "mean": float(numpy.mean(batches)),
        "mean_steady": float(numpy.mean(batches[cut:])),
    }


def scalability(name, n, x):
    def law(n, rate, alpha, beta):
        return rate * n / (1 + alpha * (n - 1) + beta * n * (n - 1))

    n, x = numpy.array(n, float), numpy.array(x, float)
    tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 100_000}
    starts = ([x[0], 0.01, 1e-4], [x[0], 0.1, 0.0], [x[0], 0.0, 1e-3], [1.2 * x[0], 0.3, 0.01])
    fits = [optimize.curve_fit(law, n, x, p0=p0, bounds=(0, numpy.inf), **tight)[0] for p0 in starts]
    best = min(fits, key=lambda fit: ((x - law(n, *fit)) ** 2).sum())
    squares = float(((x - law(n, *best)) ** 2).sum())
    rate, alpha, beta = map(float, best)
    return {"name": name, "n": listed(n), "x": listed(x), "lambda": rate, "alpha": alpha, "beta": beta, "squares": squares}


few = [rates(n, 1000, 20) for n in (2, 3, 5, 10, 19)]
many = [numpy.round(random.lognormal(3, 0.4, n), 3) for n in (20, 30, 60)]
seconds = numpy.arange(120)
ramp = numpy.round(10_000 * (1 - numpy.exp(-(seconds + 1) / 8)) + random.normal(0, 100, 120))
flat = numpy.round(random.normal(10_000, 100, 120))
late = numpy.round(numpy.where(seconds < 80, 5_000, 10_000) + random.normal(0, 50, 120))
odd = numpy.round(random.normal(10_000, 100, 63))

json.dump(
    {
        "made_with": {"scipy": scipy.__version__, "numpy": numpy.__version__},
        "t_quantile": [[v, float(stats.t.ppf(0.975, v))] for v in (1, 1.5, 2, 3.7, 4, 9, 29.25, 100, 1000)],
        "mean_t": [mean_t(sample) for sample in few],
        "ratio_t": [
            ratio_t(a, b)
            for a, b in (
                (few[1], rates(3, 1010, 15)),
                (few[2], rates(7, 900, 90)),
                (few[0], rates(2, 1000, 1)),
                (few[3], rates(4, 10, 2)),
            )
        ],
        "mean_bootstrap": [mean_bootstrap(sample) for sample in many],
        "ratio_bootstrap": [ratio_bootstrap(many[0], many[1]), ratio_bootstrap(many[2], many[1])],
        "modified_z": [
            modified_z(numpy.array([2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3])),
            modified_z(few[2]),
            modified_z(few[3]),
        ],
        # The first two: N. J. Gunther, Guerrilla Capacity Planning (2007), as R's package `usl` has them; the others:
        # Mindcraft, "HP NetServer LT 6000r Web Server Performance" (2000), tables 2 to 5.
        "scalability": [
            scalability("raytracer", [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64], [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310]),
            scalability("specsdm91", [1, 18, 36, 72, 108, 144, 216], [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]),
            scalability("ASP", [1, 2, 4, 6], [634, 920, 1369, 1688]),
            scalability("ISAPI", [1, 2, 4, 6], [1271, 1854, 2136, 3238]),
            scalability("e-commerce, ASP", [1, 2, 4, 6], [1144, 1768, 2644, 3265]),
            scalability("e-commerce, ISAPI", [1, 2, 4, 6], [1409, 2183, 3389, 4275]),
        ],
        "mser5": [mser5(series) for series in (ramp, flat, late, odd)],
    },
    sys.stdout,
    indent=1,
)
print()
