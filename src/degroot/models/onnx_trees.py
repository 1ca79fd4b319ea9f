"""Trees in ONNX files, as arrays, and whether they are trees."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput

ML = "ai.onnx.ml."
TREE_ENSEMBLE = ML + "TreeEnsemble"
TREE_CLASSIFIER = ML + "TreeEnsembleClassifier"
TREES = (ML + "TreeEnsembleRegressor", TREE_CLASSIFIER, TREE_ENSEMBLE)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
MEMBER, LEAF = 6, 7  # their places in `MODES`
DEEPEST_FOREST = 1000  # onnxruntime goes down by recursion when it opens a file
LARGEST_NUMBER = 2**31  # onnxruntime keeps the numbers of trees, nodes and features in 32 bits
MOST_OUTPUTS = 10_000  # of trees that may run inside a node
DAMAGED = "The trees of an ONNX file must be whole; these are not."


@dataclass(frozen=True, eq=False)
class TreeNode:
    """A step that is an ensemble of trees."""

    operator: str
    features: str  # the name of the tensor whose rows go down the trees
    is_inner: bool  # in a graph within the graph, or in a function
    attributes: dict[str, Any]  # numbers as arrays, texts as lists


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees in arrays, a place for each node; leaves lead to themselves."""

    roots: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[Any]
    mode: NDArray[np.int64]
    nan_is_true: NDArray[np.bool_]
    children: NDArray[np.int64]  # (2, nodes): where false and true lead
    members: dict[int, NDArray[Any]]  # of nodes that ask whether a number is among others

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which nodes are leaves."""
        return np.asarray(self.mode == LEAF)

    def is_true(self, nodes: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.bool_]:
        """What each of these nodes says of its value."""
        bound, mode = self.threshold[nodes], self.mode[nodes]
        tests = (values <= bound, values < bound, values >= bound, values > bound, values == bound, values != bound)
        said = np.select([mode == k for k in range(len(tests))], tests, False)
        for node, members in self.members.items():
            said |= (nodes == node) & np.isin(values, members)
        return np.asarray(said | (np.isnan(values) & self.nan_is_true[nodes]))


def read_trees(step: TreeNode) -> Trees:
    """The trees of a step; refused if a branch leads nowhere."""
    return _read_newer_trees(step) if step.operator == TREE_ENSEMBLE else _read_classic_trees(step)


def is_harmless_forest(step: TreeNode) -> bool:
    """Whether every row comes to a leaf, through features and to outputs that are there."""
    try:
        trees = read_trees(step)
        return _is_forest(trees) and _has_valid_numbers(step, trees) and _has_valid_outputs(step, trees)
    except (InvalidInput, KeyError, ValueError, IndexError, TypeError, AttributeError):
        return False


def _is_forest(trees: Trees) -> bool:
    """Whether roots are nobody's child, and all other nodes are the child of one node and below a root."""
    branches = np.flatnonzero(~trees.is_leaf)
    parents = np.bincount(trees.children[:, branches].ravel(), minlength=len(trees.mode))
    is_root = np.bincount(trees.roots, minlength=len(trees.mode))
    if not bool((is_root + parents == 1).all()):
        return False
    here, met = trees.roots, 0
    for _ in range(DEEPEST_FOREST):
        met += len(here)
        here = trees.children[:, here[~trees.is_leaf[here]]].ravel()
        if not len(here):
            return met == len(trees.mode)  # others lead in a circle
    return False


def _has_valid_numbers(step: TreeNode, trees: Trees) -> bool:
    """Whether the numbers of features, nodes and trees are those that onnxruntime takes them for."""
    asked, held = trees.feature[~trees.is_leaf], step.attributes
    if step.operator != TREE_ENSEMBLE:
        nodes, tree = held["nodes_nodeids"], held["nodes_treeids"]
        if not (_are_within(nodes, len(nodes)) and _are_within(tree, LARGEST_NUMBER)):
            return False
    return _are_within(asked, LARGEST_NUMBER) and not bool((trees.mode == MEMBER).any())


def _has_valid_outputs(step: TreeNode, trees: Trees) -> bool:
    """Whether each leaf adds to outputs that there are."""
    held = step.attributes
    if step.operator == TREE_ENSEMBLE:
        outputs, ids = int(held["n_targets"]), held["leaf_targetids"]
        return _are_within(ids, outputs) and len(held["leaf_weights"]) == len(ids) and outputs <= MOST_OUTPUTS
    is_classifier = step.operator == TREE_CLASSIFIER
    what = "class" if is_classifier else "target"
    labels = [held[name] for name in ("classlabels_strings", "classlabels_int64s") if len(held.get(name, ()))]
    if is_classifier and (len(labels) != 1 or len(labels[0]) < 2):
        return False
    outputs = len(labels[0]) if is_classifier else int(held["n_targets"])
    ids, weights = held[f"{what}_ids"], _either(held, f"{what}_weights")
    to = list(zip(held[f"{what}_treeids"].tolist(), held[f"{what}_nodeids"].tolist(), strict=True))
    nodes = zip(held["nodes_treeids"].tolist(), held["nodes_nodeids"].tolist(), strict=True)
    leaves = {node for node, is_leaf in zip(nodes, trees.is_leaf.tolist(), strict=True) if is_leaf}
    return (
        _are_within(ids, outputs)
        and 0 < len(ids) == len(weights) == len(to)
        and leaves.issuperset(to)
        and len(_either(held, "base_values")) in (0, 1, outputs)
        and outputs <= MOST_OUTPUTS
    )


def _either(held: dict[str, Any], name: str) -> Any:
    """Numbers that stand in a list or in a tensor, not in both."""
    lists = [held[key] for key in (name, f"{name}_as_tensor") if len(held.get(key, ()))]
    check_trees(len(lists) <= 1)
    return lists[0] if lists else ()


def _are_within(numbers: NDArray[Any], end: int) -> bool:
    return bool(((numbers >= 0) & (numbers < end)).all())


def _read_classic_trees(step: TreeNode) -> Trees:
    """TreeEnsembleRegressor and TreeEnsembleClassifier: nodes know their tree, and others of it by number."""
    held = step.attributes
    tree, node = held["nodes_treeids"], held["nodes_nodeids"]
    check_trees(set(held["nodes_modes"]) <= set(MODES) - {"BRANCH_MEMBER"})
    mode = np.array([MODES.index(name) for name in held["nodes_modes"]])
    places = {key: place for place, key in enumerate(zip(tree.tolist(), node.tolist(), strict=True))}
    own = np.arange(len(places))
    to = [zip(tree.tolist(), held[f"nodes_{side}nodeids"].tolist(), strict=True) for side in ("false", "true")]
    children = np.array([[places.get(key, -1) for key in keys] for keys in to])
    children = np.where(mode == LEAF, own, children)
    check_trees(len(places) == len(mode) and bool((children >= 0).all()))
    roots = np.setdiff1d(own, children[:, mode != LEAF])
    check_trees(len(roots) == len(np.unique(tree)))
    values = _either(held, "nodes_values")
    tracks = held.get("nodes_missing_value_tracks_true", np.zeros(len(mode), int))
    check_trees(len(values) == len(tracks) == len(mode) == len(held["nodes_featureids"]))
    return Trees(roots, held["nodes_featureids"], values, mode, tracks != 0, children, {})


def _read_newer_trees(step: TreeNode) -> Trees:
    """TreeEnsemble: branches and leaves have numbers of their own. Leaves get the places behind the branches."""
    held = step.attributes
    mode = held["nodes_modes"].astype(np.int64)
    branches, leaves = len(mode), len(held["leaf_targetids"])
    check_trees(_are_within(mode, MEMBER + 1))
    sides = []
    for side in ("false", "true"):
        to, is_leaf = held[f"nodes_{side}nodeids"], held[f"nodes_{side}leafs"] != 0
        check_trees(
            len(to) == len(is_leaf) == branches and bool(((to >= 0) & (to < np.where(is_leaf, leaves, branches))).all())
        )
        sides.append(np.concatenate([np.where(is_leaf, to + branches, to), np.arange(branches, branches + leaves)]))
    roots, own = held["tree_roots"], np.zeros(leaves, int)
    tracks = held.get("nodes_missing_value_tracks_true", np.zeros(branches, int))
    splits, asked = held["nodes_splits"], held["nodes_featureids"]
    check_trees(len(splits) == len(asked) == len(tracks) == branches and _are_within(roots, branches))
    return Trees(
        roots,
        np.concatenate([asked, own]),
        np.concatenate([splits, own.astype(splits.dtype)]),
        np.concatenate([mode, np.full(leaves, LEAF)]),
        np.concatenate([tracks != 0, own != 0]),
        np.stack(sides),
        _read_members(mode, held.get("membership_values")),
    )


def _read_members(mode: NDArray[np.int64], values: Any) -> dict[int, NDArray[Any]]:
    """The numbers of each node that asks for some, which stand one behind the other, with NaN between."""
    nodes = np.flatnonzero(mode == MEMBER).tolist()
    if not nodes:
        return {}
    sets = np.split(values, np.flatnonzero(np.isnan(values)))
    check_trees(len(sets) >= len(nodes))
    return {node: each[~np.isnan(each)] for node, each in zip(nodes, sets, strict=False)}


def check_trees(fits: bool) -> None:
    """Refuse trees that are damaged."""
    if not fits:
        raise InvalidInput(DAMAGED)
