"""Tables as organisations have them, for tests: texts, gaps, dates and yes/no columns, by one schema."""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from support.consortium import Consortium, save_model

from degroot import Agent, Collective
from degroot.schema import AS_SHARED, Column, Schema

SCHEMA = Schema(
    (
        Column("age", unit="years", range=(0.0, 120.0)),
        Column("weight", unit="kg", missing="not measured"),
        Column("sex", "category", ("female", "male")),
        Column("grade", "ordered", ("low", "middle", "high")),
        Column("smoker", "boolean", ("no", "yes")),
        Column("seen", "date"),
    ),
    Column("cost", unit="EUR"),
)


WHOLE = ("weight", "smoker")  # columns without gaps, which models trained on them need


def make_table(seed, n=90, gaps=0.1, whole=WHOLE):
    """A frame with all columns of the schema, with gaps but for those that are `whole`, and its target."""
    rng = np.random.default_rng(seed)
    age, weight = rng.normal(45 + 5 * (seed % 3), 12, n).clip(1, 110).round(1), rng.normal(75, 10, n).round(2)
    sex, grade, smoker = rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 2, n)
    days = rng.integers(0, 900, n)
    cost = age + 0.5 * weight * (1 + sex) + 10.0 * grade + 15.0 * smoker + 0.01 * days + rng.normal(0, 3.0, n)
    table = pd.DataFrame(
        {
            "age": age,
            "weight": weight,
            "sex": np.array(["female", "male"], object)[sex],
            "grade": np.array(["low", "middle", "high"], object)[grade],
            "smoker": np.array(["no", "yes"], object)[smoker],
            "seen": (pd.Timestamp("2023-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d"),
        }
    )
    for name in table:
        blank = rng.random(n) < gaps
        if name not in whole:
            table.loc[blank, name] = None
    return table, cost.round(3)


def encode(table, schema=SCHEMA, site=AS_SHARED):
    return schema.encode({name: table[name].to_numpy() for name in table}, "the table", site)


def train(X, y, seed=0):
    """A model that takes gaps; of columns that hold nothing else it is not told."""
    model = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=8, random_state=seed)
    lacks = np.isnan(X).all(axis=0)
    if lacks.any():
        model = make_pipeline(ColumnTransformer([("known", "passthrough", np.flatnonzero(~lacks).tolist())]), model)
    return model.fit(X, y)


def train_without_gaps(X, y):
    """One that takes none."""
    whole = ~np.isnan(X).any(axis=1)
    return LinearRegression().fit(X[whole], y[whole])


class SchemaConsortium(Consortium):
    """Nodes whose rows are raw CSV files, read by one schema."""

    def __init__(self, folder, K=3, *, n=90, schema=SCHEMA, trainers=None, **more):
        dummy = [(np.zeros((2, 1)), np.zeros(2), np.zeros(2))] * K
        super().__init__(folder, K, rows=dummy, evidence=more.pop("evidence", "own"), **more)
        self.schema, self.agents, self.options = schema, [], more
        for k, name in enumerate(self.names):
            self.put(name, *make_table(k, n + 7 * k), (trainers or {}).get(name, train))

    def put(self, name, table, y, trainer=train, *, site=AS_SHARED, schema=None, data="", raw=None):
        """Give a node its rows and a model; `raw`: the table as its file has it, if it is written another way."""
        home, schema = self.folder / name, schema or self.schema
        (home / "schema.toml").write_text(schema.to_toml())
        written = (table if raw is None else raw).copy()
        target = site.find_name(schema.target.name)
        if target not in written:
            written[target] = y
        written.to_csv(home / "rows.csv", index=False)
        text = 'schema = "schema.toml"\ntarget = "cost"\n' + data
        if site is not AS_SHARED:
            (home / "site.toml").write_text(site.to_toml())
            text += 'site = "site.toml"\n'
        X = encode(table, schema)
        model = trainer(X, y)
        save_model(home / "model.skops", model)
        self.agents = [agent for agent in self.agents if agent.name != name]
        self.agents.append(Agent(model, X, y, name, schema=schema))
        self.agents.sort(key=lambda agent: agent.name)
        known = {key: self.options[key] for key in ("settings", "top", "timing", "limits") if key in self.options}
        self.write(name, data=text, **known)

    def collective(self, **settings):
        return Collective(self.agents, guard=True, **settings)
