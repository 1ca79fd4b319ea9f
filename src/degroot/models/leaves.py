"""How many rows are in each leaf of a model's trees.

Trees of scikit-learn and LightGBM say how many rows they were grown on; those of XGBoost and ONNX do not, or not for
all objectives, so the owner's own rows go down them.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.models.onnx import INPUTS, OnnxModel, open_session
from degroot.models.onnx_graph import OnnxGraph, with_outputs
from degroot.models.onnx_trees import DAMAGED, TreeNode, Trees, check_trees, read_trees

Counts = NDArray[np.int64]  # rows in each leaf, (leaves,)

NO_CHILD = -1  # of scikit-learn's leaves
LEAF_COUNT = re.compile(rb"^leaf_count=([0-9 ]*)\r?$", re.MULTILINE)
XGBOOST_LEAF = re.compile(r"^\s*[0-9]+:leaf=", re.MULTILINE)
DEEPEST = 10_000  # of trees: a path that is longer leads in a circle


def count_in_tree(tree: Any) -> Counts:
    """Rows in the leaves of a tree of scikit-learn, as it was grown; copies of a row in a bootstrap sample are one."""
    return np.asarray(tree.n_node_samples[tree.children_left == NO_CHILD])


def count_in_histogram_tree(nodes: NDArray[Any]) -> Counts:
    """The same, of a tree of scikit-learn's histogram gradient boosting."""
    return np.asarray(nodes["count"][nodes["is_leaf"] != 0], np.int64)


def count_in_lightgbm(content: bytes) -> Counts:
    """The same, of all trees in a text file of LightGBM."""
    found = [count for line in LEAF_COUNT.findall(content) for count in line.split()]
    return np.array(found, dtype=np.int64)


def count_in_xgboost(booster: Any, rows: NDArray[Any]) -> Counts:
    """How many of `rows` come to each leaf of XGBoost's trees: covers are sums of weights, not numbers of rows."""
    from xgboost import DMatrix

    leaves = [len(XGBOOST_LEAF.findall(tree)) for tree in booster.get_dump()]
    if not sum(leaves):
        return np.zeros(0, np.int64)  # linear
    reached = booster.predict(DMatrix(rows), pred_leaf=True, validate_features=False).reshape(len(rows), -1)
    if reached.shape[1] != len(leaves):
        raise InvalidInput(f"{len(leaves)} trees must lead to as many leaves; they led to {reached.shape[1]}.")
    counted = [np.unique(column, return_counts=True)[1] for column in reached.T]
    return _join([np.pad(count, (0, many - len(count))) for count, many in zip(counted, leaves, strict=True)])


def count_in_onnx(content: bytes, graph: OnnxGraph, rows: NDArray[Any]) -> Counts:
    """How many of `rows` come to each leaf of the trees of an ONNX file, after the steps that are before the trees."""
    if any(step.is_inner for step in graph.trees):
        raise InvalidInput("Trees must be steps of the graph itself; some are in a graph within it or in a function.")
    features = _features(content, sorted({step.features for step in graph.trees}), rows)
    return _join([_count_in_step(step, features[step.features]) for step in graph.trees])


def _count_in_step(step: TreeNode, features: NDArray[Any]) -> Counts:
    trees = read_trees(step)
    is_leaf = trees.is_leaf
    asked = trees.feature[~is_leaf]
    check_trees(features.ndim == 2 and bool(((asked >= 0) & (asked < features.shape[1])).all()))
    counts = np.zeros(len(trees.mode), np.int64)
    for root in trees.roots:
        reached, many = np.unique(_go_down(trees, is_leaf, root, features), return_counts=True)
        counts[reached] += many
    return np.asarray(counts[is_leaf])


def _go_down(trees: Trees, is_leaf: NDArray[np.bool_], root: int, features: NDArray[Any]) -> NDArray[np.int64]:
    """The leaf of the tree with this root to which each row comes, (n,)."""
    here = np.full(len(features), root)
    for _ in range(DEEPEST):
        walking = np.flatnonzero(~is_leaf[here])
        if not len(walking):
            return here
        nodes = here[walking]
        said = trees.is_true(nodes, features[walking, trees.feature[nodes]])
        here[walking] = trees.children[said.astype(int), nodes]
    raise InvalidInput(DAMAGED)


def _features(content: bytes, names: list[str], rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What goes down the trees for `rows`: these of the graph's tensors."""
    inputs = {entry.name: entry.type for entry in open_session(content).get_inputs()}
    inner = [name for name in names if name not in inputs]
    found = {name: np.asarray(rows, INPUTS[inputs[name]]) for name in names if name in inputs}
    if inner:
        model = OnnxModel(open_session(with_outputs(content, inner)), content)
        found |= dict(zip(inner, map(np.asarray, model.run(rows, inner)), strict=True))
    return {name: each if each.dtype.kind == "f" else each.astype(np.float64) for name, each in found.items()}


def _join(counts: list[Counts]) -> Counts:
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)
