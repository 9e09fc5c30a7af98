#!/usr/bin/env python3
"""Prints the levels of crates/judge/src/duel/looks.rs: with how much confidence each look of a duel has to be taken, so that all looks
together err in 5 % (or 1 %) of duels.

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1 numpy==2.4.6
    venv/bin/python looks.py

The sum of n standard normal values is compared with c sqrt(n) at each look; its density among duels that have claimed nothing so far is
carried from look to look by numerical integration (Armitage, McPherson, Rowe 1969), and c is found for which the claims add up to the level
(Pocock 1977).
"""

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

FIRST, MOST, GRID = 5, 2000, 600


def looks():
    all_looks = [FIRST]
    while all_looks[-1] < MOST:
        all_looks.append(max(all_looks[-1] + 1, round(all_looks[-1] * 1.25)))
    return all_looks


def claims(at, c):
    """The share of duels of equals that claim a difference at any look."""
    reach = c * np.sqrt(at[0])
    x = np.linspace(-reach, reach, GRID)
    density = norm.pdf(x, 0, np.sqrt(at[0]))
    share = 2 * norm.sf(c)
    for before, now in zip(at, at[1:]):
        deviation, reach = np.sqrt(now - before), c * np.sqrt(now)
        beyond = norm.sf((reach - x) / deviation) + norm.cdf((-reach - x) / deviation)
        share += np.trapezoid(density * beyond, x)
        weights = np.full(GRID, x[1] - x[0])
        weights[0] = weights[-1] = weights[0] / 2
        y = np.linspace(-reach, reach, GRID)
        density = (norm.pdf((y[:, None] - x[None, :]) / deviation) / deviation) @ (density * weights)
        x = y
    return share


if __name__ == "__main__":
    at = looks()
    print("looks", at)
    for level in (0.05, 0.01):
        for number in range(1, len(at) + 1):
            c = brentq(lambda c: claims(at[:number], c) - level, 1.5, 4.5, xtol=1e-4)
            print(f"{level} {number} {2 * norm.sf(c):.5f}")
