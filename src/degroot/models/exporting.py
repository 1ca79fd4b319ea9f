"""What an owner checks before it gives its model file to another organisation.

A model that stores training rows must not leave: nearest neighbours, kernel methods, numbers for each row. Trees may,
with a warning where few rows are in a leaf, since the value of a leaf with one row is the label of that row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.models.formats import NUMBERED, SAFE, first_line, open_content, open_content_with
from degroot.models.leaves import (
    Counts,
    count_in_histogram_tree,
    count_in_lightgbm,
    count_in_onnx,
    count_in_tree,
    count_in_xgboost,
)
from degroot.models.lightgbm import LightGBMModel
from degroot.models.onnx import OnnxModel
from degroot.models.onnx_graph import OnnxGraph, inspect_graph
from degroot.models.xgboost import XGBoostModel

COPYABLE = (*SAFE, *NUMBERED)  # how the names of files end that may be given to others
FEW_ROWS = 5  # in a leaf: its value tells of their labels
MANY_ROWS = 20  # an array with as long an axis has a number for each row; shorter ones are so by chance
NEARLY = 0.9  # of the values of a feature
LARGEST_DENSE = 1 << 24  # numbers of a sparse matrix that are looked at
REQUIREMENT = "A model that is given to others must not store training rows"

ROW_STORING_TYPES = {  # types that store rows or labels, by the names of their classes or of what they are made of
    "NeighborsBase": "the rows", "KNNImputer": "the rows", "BinaryTree": "the rows",
    "KDTree": "the rows", "BallTree": "the rows", "KDTree32": "the rows",
    "KDTree64": "the rows", "BallTree32": "the rows", "BallTree64": "the rows",
    "Isomap": "the rows", "LocallyLinearEmbedding": "the rows", "BaseLibSVM": "support vectors",
    "GaussianProcessRegressor": "all rows and labels", "GaussianProcessClassifier": "all rows and labels",
    "_BinaryGaussianProcessClassifierLaplace": "all rows and labels", "KernelRidge": "all rows",
    "KernelDensity": "all rows", "KernelPCA": "all rows", "Nystroem": "some of the rows",
    "BaseLabelPropagation": "all rows and labels", "IsotonicRegression": "labels",
}  # fmt: skip
OF_ROWS = frozenset((  # attributes that have training rows, or something for each of them
    "_fit_X", "X_fit_", "X_train_", "y_train_", "support_vectors_", "X_thresholds_", "y_thresholds_",
    "X_transformed_fit_", "training_data_", "labels_", "row_labels_", "embedding_", "oob_prediction_",
    "oob_decision_function_", "_x_scores", "_y_scores", "x_scores_", "y_scores_", "affinity_matrix_",
    "dissimilarity_matrix_", "dist_matrix_", "negative_outlier_factor_", "transduction_", "label_distributions_",
    "labeled_iter_", "reachability_", "core_distances_", "ordering_", "predecessor_", "core_sample_indices_",
    "probabilities_", "_sample_weight", "_raw_data", "inlier_mask_", "outliers_", "_single_linkage_tree_",
))  # fmt: skip
OF_OTHERS = frozenset((  # attributes whose axes are features, classes, estimators, rounds, ..., as long as they may be
    "coef_", "intercept_", "coefs_", "intercepts_", "standard_coef_", "components_", "mean_", "means_", "var_",
    "scale_", "center_", "min_", "offset_", "data_min_", "data_max_", "data_range_", "feature_importances_", "classes_",
    "class_count_", "class_prior_", "class_log_prior_", "class_weight_", "priors_", "priors", "theta_", "sigma_",
    "lambda_", "lambdas_", "feature_count_", "feature_log_prob_", "category_count_", "covariance_", "covariances_",
    "precision_", "precisions_", "precisions_cholesky_", "weights_", "location_", "singular_", "singular_values_",
    "explained_variance_", "explained_variance_ratio_", "noise_variance_", "scalings_", "rotations_", "xbar_",
    "mixing_", "whitening_", "x_weights_", "y_weights_", "x_loadings_", "y_loadings_", "x_rotations_", "y_rotations_",
    "X_offset_", "X_scale_", "scores_", "scores_path_", "coefs_paths_", "pvalues_", "variances_", "ranking_",
    "statistics_", "indicator_", "features_", "categories_", "infrequent_categories_", "bin_edges_", "bin_thresholds_",
    "n_bins_", "n_bins_non_missing_", "missing_values_bin_idx_", "powers_", "bsplines_", "idf_", "encodings_",
    "cluster_centers_", "centroids_", "counts_", "deviations_", "subcluster_labels_", "random_weights_",
    "random_offset_", "alphas_", "alpha_", "mse_path_", "coef_path_", "dual_gap_", "dual_gaps_", "l1_ratio_", "C_",
    "Cs_", "l1_ratios_", "active_", "n_iter_", "train_score_", "validation_score_", "validation_scores_",
    "oob_improvement_", "oob_scores_", "loss_curve_", "estimator_weights_", "estimator_errors_",
    "estimators_features_", "features_indices_", "is_categorical_", "cv_results_",
    "feature_names_in_", "loglike_", "lower_bounds_", "stds_", "references_",
))  # fmt: skip

SUMMARIES = frozenset((  # attributes with a number for each feature, which may happen to be those of a row
    "mean_", "center_", "min_", "scale_", "var_", "data_min_", "data_max_", "data_range_", "statistics_", "quantiles_",
))  # fmt: skip

KERNEL_OPERATORS = {  # in ONNX, with or without its domain
    "ai.onnx.ml.SVMRegressor": "support vectors", "ai.onnx.ml.SVMClassifier": "support vectors",
    "com.microsoft.CDist": "distances to rows", "CDist": "distances to rows",
}  # fmt: skip
NEAREST = "TopK"
DISTANCES = frozenset(("Scan", "Loop", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp"))


def check_exportable(
    file: Path, content: bytes, rows: NDArray[Any], classes: Sequence[Any] | None = None
) -> tuple[str, ...]:
    """Refuse a model file that must not be given to others; what the owner should know of one that may.

    rows : (n, d), those the owner has, on which the model was trained.
    """
    if file.suffix.lower() not in COPYABLE:
        raise InvalidInput(f"A model that is given to others must be a file {_listed(COPYABLE)}; got {file}.")
    own = RowMatcher(rows)
    graph = open_content_with(file, content, _inspect_single_file) if file.suffix.lower() == OnnxModel.suffix else None
    model, _ = open_content(file, content, classes)
    try:
        own.check_width(model)
        if getattr(model, "own_categories", None):
            raise InvalidInput(
                "A model that is given to others must take numbers by the schema; it was trained on categories of a "
                "frame. Train it on numbers, or grant others the right to ask it."
            )
        if graph is not None:
            counts, uncounted = _check_onnx(content, graph, own)
        elif isinstance(model, LightGBMModel):
            counts, uncounted = [count_in_lightgbm(content)], []
        elif isinstance(model, XGBoostModel):
            counts, uncounted = _count_or_warn(lambda: count_in_xgboost(model.booster, own.rows))
        else:
            counts, uncounted = check_object(model, own)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    except Exception as error:  # of an object with other parts than its type has
        raise InvalidInput(
            f"A model that is given to others must be one that can be checked; {file} cannot: {first_line(error)}."
        ) from error
    return (*_warn_of_small_leaves(counts), *dict.fromkeys(uncounted))


class RowMatcher:
    """The owner's rows, to be found in arrays. Numbers are equal if they are as float32."""

    def __init__(self, rows: NDArray[Any]) -> None:
        try:
            self.rows = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"The rows must be a table of numbers; {first_line(error)}.") from error
        if self.rows.ndim != 2 or not self.rows.size:
            raise InvalidInput(f"The rows must be a table of numbers, (n, d); their shape is {self.rows.shape}.")
        self.count, self.width = self.rows.shape
        self._known: dict[np.dtype[Any], set[bytes]] = {}

    def check_width(self, model: Any) -> None:
        """Refuse rows that have not as many features as the model takes."""
        takes = getattr(model, "n_features_in_", self.width)
        if takes is not None and takes != self.width:
            raise InvalidInput(f"the rows must have the model's {takes} features; they have {self.width}.")

    def are_many(self) -> bool:
        """Whether an axis as long as the rows is so by more than chance: they are many, and not as many as features."""
        return bool(self.count >= MANY_ROWS and self.count != self.width)

    def count_matches(self, array: NDArray[Any]) -> int:
        """How many of the rows are rows or columns of the array; 0 if so few that they may be so by chance."""
        if array.ndim == 0 or array.dtype.kind not in "fiu":
            return 0
        found = [self._matches(array.reshape(-1, self.width))] if array.shape[-1] == self.width else []
        if array.ndim == 2 and array.shape[0] == self.width:
            found.append(self._matches(array.T))
        return max(found, default=0)

    def has_column_in(self, array: NDArray[Any]) -> bool:
        """Whether the array has nearly all values of a feature, which then are many and no whole numbers."""
        if array.dtype.kind != "f" or array.size < MANY_ROWS:
            return False
        values = np.unique(array.astype(np.float32))
        for column in self.rows.T.astype(np.float32):
            own = np.unique(column[np.isfinite(column) & (column != np.round(column))])
            if MANY_ROWS <= len(own) * NEARLY <= len(values) and np.isin(own, values).mean() >= NEARLY:
                return True
        return False

    def _matches(self, table: NDArray[Any]) -> int:
        """How many rows the table has of these.

        A row that is met says little if it has one feature, zeros but for one, or whole numbers only: the
        coefficients of models are such by chance. Of such rows at least 5 must be met, and in half of the table.
        """
        kind = np.dtype(np.float16 if table.dtype == np.float16 else np.float32)
        if kind not in self._known:
            self._known[kind] = set(_as_keys(self.rows.astype(np.float32).astype(kind)))
        known, cast = self._known[kind], table.astype(kind)
        matched = np.unique(cast[[key in known for key in _as_keys(cast)]], axis=0)
        fractions = (matched != np.round(matched)) & np.isfinite(matched)
        telling = int((fractions.sum(axis=1) >= 2).sum())
        if telling:
            return len(matched)
        if self.width > 1:
            matched = matched[(matched != 0).sum(axis=1) >= 2]
        return len(matched) if len(matched) >= FEW_ROWS and 2 * len(matched) >= len(table) else 0


def _as_keys(table: NDArray[Any]) -> list[bytes]:
    """The bytes of each row, alike if the rows are."""
    zeros = np.where(table == 0, table.dtype.type(0), table)  # no negative ones
    content, size = (
        np.where(np.isnan(zeros), table.dtype.type(np.nan), zeros).tobytes(),
        table.itemsize * table.shape[1],
    )
    return [content[start : start + size] for start in range(0, len(content), size)]


# scikit-learn


def check_object(model: Any, own: RowMatcher) -> tuple[list[Counts], list[str]]:
    """Refuse an object that has training rows anywhere in it; the rows in the leaves of all its trees."""
    counts: list[Counts] = []
    uncounted: list[str] = []
    for owner, name, thing in _walk(model):
        kind = type(thing).__name__
        module = type(thing).__module__
        if isinstance(thing, np.ndarray) or hasattr(thing, "toarray"):
            _check_array(owner, name, thing, own)
        elif kind == "Tree" and module.startswith("sklearn."):
            counts.append(count_in_tree(thing))
        elif kind == "TreePredictor" and module.startswith("sklearn."):
            counts.append(count_in_histogram_tree(thing.nodes))
        elif kind == "Booster" and module.startswith("lightgbm."):
            counts.append(count_in_lightgbm(thing.model_to_string(num_iteration=-1).encode()))
        elif kind == "Booster" and module.startswith("xgboost."):
            more, why = _count_or_warn(lambda booster=thing: count_in_xgboost(booster, own.rows))
            counts, uncounted = counts + more, uncounted + why
        else:
            _check_type(thing, own)
    return counts, uncounted


def _walk(model: Any) -> Iterator[tuple[str, str, Any]]:
    """Everything in an object, once: the type that has it, the name of the attribute, and the thing."""
    met: dict[int, Any] = {}  # which keeps them alive, so that no other gets their number
    waiting: list[tuple[str, str, Any]] = [("", "", model)]
    while waiting:
        owner, name, thing = waiting.pop()
        if id(thing) in met or thing is None or isinstance(thing, str | bytes | bool | int | float | complex | type):
            continue
        met[id(thing)] = thing
        yield owner, name, thing
        if isinstance(thing, dict):
            waiting.extend((owner, name, each) for each in (*thing, *thing.values()))
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting.extend((owner, name, each) for each in _as_arrays(thing))
        elif isinstance(thing, np.ndarray):
            waiting.extend((owner, name, each) for each in (thing.ravel().tolist() if thing.dtype == object else ()))
        elif not hasattr(thing, "toarray"):
            waiting.extend((type(thing).__name__, key, each) for key, each in getattr(thing, "__dict__", {}).items())


def _as_arrays(things: Any) -> list[Any]:
    """What is in a list; numbers, and lists of them, as an array."""
    held = list(things)
    tables = [each for each in held if isinstance(each, list | tuple) and _are_numbers(each)]
    if held and (_are_numbers(held) or (len(tables) == len(held) and len({len(each) for each in tables}) == 1)):
        return [np.array(held)]
    return held


def _are_numbers(things: Sequence[Any]) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in things)


def _check_type(thing: Any, own: RowMatcher) -> None:
    kind = type(thing)
    names = {base.__name__ for base in kind.__mro__ if base.__module__.startswith("sklearn.")}
    held = getattr(thing, "__dict__", None)
    is_fitted = held is None or any(name.endswith("_") and not name.startswith("__") for name in held)
    kept = [ROW_STORING_TYPES[name] for name in names if name in ROW_STORING_TYPES]
    if kept and is_fitted:
        raise InvalidInput(f"{REQUIREMENT}; {kind.__name__} keeps {kept[0]}.")
    if "QuantileTransformer" in names and len(getattr(thing, "quantiles_", ())) >= own.count:
        raise InvalidInput(
            f"{REQUIREMENT}; QuantileTransformer with {len(thing.quantiles_)} quantiles of {own.count} rows keeps "
            "every number of every feature."
        )


def _check_array(owner: str, name: str, thing: Any, own: RowMatcher) -> None:
    array, what = _as_dense(thing), f"`{name}` of {owner or 'the model'}"
    if 0 in thing.shape or (array is not None and not _has_values(array)):
        return
    if name in OF_ROWS and not (owner == "FeatureAgglomeration" and name == "labels_"):
        raise InvalidInput(f"{REQUIREMENT}; {what} has something of each of them.")
    if name == "cv_results_" and owner.lstrip("_").startswith("Ridge"):  # the others' are of candidates
        raise InvalidInput(f"{REQUIREMENT}; {what} has an error for each of them.")
    found = own.count_matches(array) if array is not None and name not in SUMMARIES else 0
    if found:
        raise InvalidInput(f"{REQUIREMENT}; {what} holds {found} of the {own.count} own rows.")
    if array is not None and own.has_column_in(array):
        raise InvalidInput(f"{REQUIREMENT}; {what} holds the values of a whole feature.")
    if name.endswith("_") and name not in OF_OTHERS and own.are_many() and own.count in thing.shape:
        raise InvalidInput(
            f"{REQUIREMENT}; {what} has the shape {thing.shape}, as long as the {own.count} rows, and may hold "
            "something of each."
        )


def _has_values(array: NDArray[Any]) -> bool:
    """Whether it holds numbers or texts: no objects, and no mask, which says nothing without the rows."""
    if array.dtype == object:
        return all(isinstance(each, str | int | float) for each in array.ravel().tolist())
    return array.dtype.kind in "fiuUS"


def _as_dense(thing: Any) -> NDArray[Any] | None:
    if isinstance(thing, np.ndarray):
        return thing
    small = int(np.prod([float(size) for size in thing.shape])) <= LARGEST_DENSE
    return np.asarray(thing.toarray()) if small else None


# ONNX


def _inspect_single_file(content: bytes) -> OnnxGraph:
    graph = inspect_graph(content)
    if graph.external_data:  # which onnxruntime would read
        raise InvalidInput("a model that is given to others must be one file; some of its tensors are in other files.")
    return graph


def _check_onnx(content: bytes, graph: OnnxGraph, own: RowMatcher) -> tuple[list[Counts], list[str]]:
    """Refuse a graph that has training rows in it; the rows in the leaves of its trees."""
    _check_operators(graph)
    tables = [each.reshape(-1, own.width) for each in graph.lists if len(each) % own.width == 0 and own.width > 1]
    for array in (*graph.constants, *tables):
        found = own.count_matches(array) if array.size > own.width else 0  # one row may be a summary of all
        if found:
            raise InvalidInput(f"{REQUIREMENT}; the graph holds {found} of the {own.count} own rows.")
        if own.has_column_in(array):
            raise InvalidInput(f"{REQUIREMENT}; the graph holds the values of a whole feature.")
    for array in graph.constants:
        if own.are_many() and own.count in array.shape:
            raise InvalidInput(
                f"{REQUIREMENT}; a constant of the graph has the shape {array.shape}, as long as the {own.count} rows, "
                "and may hold something of each."
            )
    return _count_or_warn(lambda: count_in_onnx(content, graph, own.rows)) if graph.trees else ([], [])


def _check_operators(graph: OnnxGraph) -> None:
    for name, kept in KERNEL_OPERATORS.items():
        if name in graph.operators:
            raise InvalidInput(f"{REQUIREMENT}; the operator {name.rpartition('.')[2]} works with {kept}.")
    if NEAREST in graph.operators and graph.operators & DISTANCES:
        raise InvalidInput(f"{REQUIREMENT}; the graph looks for nearest neighbours (TopK of distances).")


# leaves


def _count_or_warn(count: Any) -> tuple[list[Counts], list[str]]:
    """The rows in leaves; a warning where they cannot be counted."""
    try:
        return [count()], []
    except Exception as error:
        why = str(error) if isinstance(error, InvalidInput) else f"{first_line(error)}."
        return [], [f"The rows in the leaves of its trees could not be counted, and may be few: {why}"]


def _warn_of_small_leaves(counts: list[Counts]) -> list[str]:
    leaves = np.concatenate([*counts, np.zeros(0, np.int64)])
    small = leaves[leaves < FEW_ROWS]
    if not len(small):
        return []
    hold = "holds" if len(leaves) == 1 else "hold"
    return [
        f"{len(small)} of {len(leaves)} {'leaf' if len(leaves) == 1 else 'leaves'} {hold} fewer than {FEW_ROWS} rows "
        f"(the smallest {small.min()}): whoever has the file can read the labels of such rows"
    ]


def _listed(suffixes: Sequence[str]) -> str:
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
