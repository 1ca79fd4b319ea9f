"""The paper's local models: for each data set three kinds, with their settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Lasso, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from degroot import InvalidInput
from degroot.paper.protocol import MakeModel


@dataclass(frozen=True)
class Network:
    """A neural network. The paper gives layers and iterations, for Boston "normalised data"; the rest is a reading."""

    layers: tuple[int, ...]
    iterations: int  # passes over the rows
    batch: int = 200
    normalise: str = "nothing"  # or "features", or "all": features and labels


SETTINGS: Mapping[str, Mapping[str, Any]] = {  # penalties of ridge and lasso, depth of trees, networks
    "boston": {"Ridge": 1e-5, "Lasso": 5e-3, "NN": Network((7, 7), 200, batch=32, normalise="all")},
    "e2006": {"Ridge": 5e-2, "Lasso": 5e-5, "NN": Network((9, 9), 500)},
    "abalone": {"Ridge": 5e-2, "Lasso": 5e-2, "DTR": 4},
    "cpusmall": {"Ridge": 1e-5, "Lasso": 1e-3, "DTR": 7},
    "yearprediction": {"Ridge": 1.0, "Lasso": 1.0, "DTR": 4},
}


def make(kind: str, setting: Any, random: np.random.Generator | None = None) -> MakeModel:
    """What makes an untrained model for each agent; chance enters through `random` alone."""
    seed = 0 if random is None else int(random.integers(2**31))
    match kind:
        case "Ridge":
            return lambda _: Ridge(setting)
        case "Lasso":
            return lambda _: Lasso(setting, max_iter=100_000)
        case "DTR":
            return lambda k: DecisionTreeRegressor(max_depth=setting, random_state=seed + k)
        case "NN":
            return lambda k: _network(setting, seed + k)
    raise InvalidInput(f"A model must be 'Ridge', 'Lasso', 'DTR' or 'NN'; got {kind!r}.")


def _network(setting: Network, seed: int) -> Any:
    network = MLPRegressor(
        hidden_layer_sizes=setting.layers, max_iter=setting.iterations, batch_size=setting.batch, random_state=seed
    )
    if setting.normalise not in ("nothing", "features", "all"):
        raise InvalidInput(f"`normalise` must be 'nothing', 'features' or 'all'; got {setting.normalise!r}.")
    if setting.normalise == "nothing":
        return network
    scaled = make_pipeline(StandardScaler(), network)
    return (
        scaled if setting.normalise == "features" else TransformedTargetRegressor(scaled, transformer=StandardScaler())
    )
