"""
Twelve air-quality stations of Beijing
======================================

*How bad is the air?* Twelve stations, hourly rows of four years. Each has a model of fine dust, PM2.5, from weather
and other gases. The hours that are asked about come from all of them, and nobody says which station it was.

The data are Zhang and others' *Beijing Multi-Site Air-Quality* at the UCI repository. They are not in any package:
``beijing.load(download=True)`` gets them from there. This example does so only when the environment variable
``DEGROOT_DOWNLOAD`` is set, or takes them from the folder that ``DEGROOT_DATA`` names; otherwise it says why it is
skipped.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from degroot import Collective, DeGrootRegressor, InvalidInput, plot
from degroot.paper.data import beijing

folder = Path(os.environ["DEGROOT_DATA"]) if os.environ.get("DEGROOT_DATA") else None
air = None
try:
    air = beijing.load(folder, download=bool(os.environ.get("DEGROOT_DOWNLOAD")))
except InvalidInput as error:
    print(f"Skipped: {error}")

# %%
# A thousand hours of each station to learn from, 3,000 of all to ask about. Gaps are filled in with the median of the
# training rows.

if air is not None:
    random, names = np.random.default_rng(0), np.unique(air.station)
    rows = [random.permutation(np.flatnonzero(air.station == name))[:1250] for name in names]
    train, test = np.concatenate([r[:1000] for r in rows]), np.concatenate([r[1000:] for r in rows])
    fill = SimpleImputer(strategy="median").fit(air.X[train])
    X, y, station = fill.transform(air.X), air.y, air.station
    model = DeGrootRegressor(DecisionTreeRegressor(max_depth=7), space=StandardScaler(), random_state=0)
    model.fit(X[train], y[train], groups=station[train])
    beliefs = model.collective_.consult(X[test], "beliefs").beliefs
    own = beliefs[np.arange(len(test)), np.searchsorted(model.collective_.names, station[test])]
    guesses = {"average": beliefs.mean(axis=1), "the station's own model": own}
    guesses |= {rule: Collective(model.agents_, rule=rule).predict(X[test]) for rule in ("degroot", "stacking")}
    errors = {name: np.mean((guess - y[test]) ** 2) for name, guess in guesses.items()}
    errors |= {
        f"{name} alone": np.mean((b - y[test]) ** 2) for name, b in zip(model.collective_.names, beliefs.T, strict=True)
    }
    for name, value in errors.items():
        print(f"{name:24} {value:6.0f}")

# %%
# How much the answers depend on single stations, at the hour with the highest forecast.

if air is not None:
    answer = Collective(model.agents_, rule="stacking").consult(X[test])
    worst = int(answer.value.argmax())
    fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    plot.influence(answer, worst, ax=ax)
    plt.show()

# %%
# **Takeaway.** Stations of one city have models that are much alike; together they are still better than each alone,
# since single trees err apart.
