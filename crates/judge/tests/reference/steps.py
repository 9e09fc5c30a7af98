#!/usr/bin/env python3
"""Makes steps.json: points of change that webstone's are held against (crates/judge/src/steps/tests.rs).

Computed by Apache Otava, formerly Hunter (https://otava.apache.org): its first pass and its test as they are. Its merging pass
(otava.analysis.merge, 0.8.0) looks again at the removed point's right neighbour and the one behind it, where the comment above it
says "adjacent": the left one keeps the p value that it had beside the removed point. So merging is written out here with Otava's
own test: the weakest point goes, and every p value is computed again. `"otava"` has what its own merging gives. To make it again:

    python3 -m venv venv && venv/bin/pip install apache-otava==0.8.0 numpy==2.2.0 scipy==1.16.3
    venv/bin/python steps.py > steps.json
"""

import json
import sys

import numpy
from otava.analysis import TTestSignificanceTester, compute_change_points, split

random = numpy.random.default_rng(2023)


def noise(length, deviation=1.0):
    return 100.0 + random.normal(0.0, deviation, length)


def stepped(length, *steps):
    values = noise(length)
    for place, size in steps:
        values[place:] += size
    return values


def merged(values):
    tester = TTestSignificanceTester(0.001)
    points = split(list(values), window_len=50, max_pvalue=0.01)
    while points:
        intervals = tester.get_intervals(points)
        points = [tester.change_point(point.to_candidate(), list(values), intervals) for point in points]
        weakest = max(points, key=lambda point: point.stats.pvalue)
        if weakest.stats.pvalue < 0.001:
            break
        points.remove(weakest)
    return points


def case(name, values):
    values = [round(float(value), 6) for value in values]
    found = [{"index": int(point.index), "p_value": float(point.stats.pvalue)} for point in merged(values)]
    otava, _ = compute_change_points(list(values), window_len=50, max_pvalue=0.001)
    return {"name": name, "values": values, "points": found, "otava": [int(point.index) for point in otava]}


drift = noise(80) + numpy.linspace(0.0, 10.0, 80)
outlier = noise(40)
outlier[20] += 15.0
last = noise(30)
last[-1] += 15.0
cases = [
    *(case(f"noise of {length}", noise(length)) for length in (10, 11, 25, 50, 51, 75, 120, 200)),
    *(case(f"one step of {size} in {length}", stepped(length, (place, size)))
      for length, place, size in ((10, 5, 4), (12, 3, -5), (20, 10, 3), (30, 28, 6), (60, 20, 2), (100, 99, 9), (150, 75, -1.5))),
    case("two steps", stepped(60, (20, 3), (40, -3))),
    case("a great step and a small one", stepped(90, (30, 50), (60, 2))),
    case("many steps", stepped(300, *((place, 3 * (-1) ** place) for place in range(25, 300, 35)))),
    case("steps at the edges of windows", stepped(150, (25, 3), (50, 3), (75, 3), (100, 3))),
    case("drift", drift),
    case("an outlier", outlier),
    case("the last one odd", last),
    *(case(f"mixture {number}", stepped(length, *((int(place), float(size)) for place, size in
                                         zip(random.integers(1, length, 3), random.normal(0, 3, 3)))))
      for number, length in enumerate(random.integers(10, 180, 25))),
]
json.dump(cases, sys.stdout, indent=None, separators=(",", ":"))
print()
