"""
Twelve air-quality stations of Beijing
======================================

*How bad is the air?* Twelve stations, hourly rows of four years. Each has a model of fine dust, PM2.5, from weather
and other gases. The hours that are asked about come from all of them, and nobody says which station it was.

The data are Zhang and others' *Beijing Multi-Site Air-Quality* at the UCI repository. They are not in any package:
this example looks for ``beijing_air.npz`` (arrays ``X``, ``y``, ``group``, ``group_names``, ``feature_names``) in the
folder that the environment variable ``DEGROOT_DATA`` names, and says so where it is not there.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from degroot import Collective, DeGrootRegressor, plot

file = Path(os.environ.get("DEGROOT_DATA", ".")) / "beijing_air.npz"
present = file.exists()
if not present:
    print("Skipped: there is no beijing_air.npz in the folder of the environment variable DEGROOT_DATA.")

# %%
# A thousand hours of each station to learn from, 3,000 of all to ask about. Gaps are filled in with the median of the
# training rows.

if present:
    air = np.load(file)
    random = np.random.default_rng(0)
    rows = [random.permutation(np.flatnonzero(air["group"] == k))[:1250] for k in range(12)]
    train, test = np.concatenate([r[:1000] for r in rows]), np.concatenate([r[1000:] for r in rows])
    fill = SimpleImputer(strategy="median").fit(air["X"][train])
    X, y, station = fill.transform(air["X"]), air["y"].astype(float), air["group_names"][air["group"]]
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

if present:
    answer = Collective(model.agents_, rule="stacking").consult(X[test])
    worst = int(answer.value.argmax())
    fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    plot.influence(answer, worst, ax=ax)
    plt.show()

# %%
# **Takeaway.** Stations of one city have models that are much alike; together they are still better than each alone,
# since single trees err apart.
