"""Trees in LightGBM's text files, looked at before LightGBM reads them: it takes them on trust, whole or not."""

import re

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput

HEAD, END = b"tree\n", b"\nend of trees\n"
WHOLE = "a text file of LightGBM must be whole; "


def check_trees(content: bytes) -> dict[str, str]:
    """The head of the file, if all its trees are there, and every branch leads on to a later one or to a leaf."""
    if not content.startswith(HEAD):
        raise InvalidInput("a text file of LightGBM must begin with 'tree'; this one does not.")
    start, end = content.find(b"\nTree=0\n") + 1, content.find(END)
    head = entries(content[: start or None])
    sizes = [int(size) for size in head.get("tree_sizes", "").split() if size.isdigit()]
    if not start or end < 0 or not sizes or start + sum(sizes) != end + 1:
        raise InvalidInput(f"{WHOLE}some of its trees are missing.")
    features = _whole(head, "max_feature_idx") + 1
    if len(head.get("feature_names", "").split()) != features or len(head.get("feature_infos", "").split()) != features:
        raise InvalidInput(f"{WHOLE}it does not name as many features as it has.")
    for number, size in enumerate(sizes):
        _check_tree(entries(content[start : start + size]), number, features)
        start += size
    return head


def entries(content: bytes) -> dict[str, str]:
    """Lines ``key=value``."""
    lines = (line.partition("=") for line in content.decode("utf-8", "replace").splitlines())
    return {key: value for key, equals, value in lines if equals}


def _check_tree(tree: dict[str, str], number: int, features: int) -> None:
    leaves, branches = _whole(tree, "num_leaves"), _whole(tree, "num_leaves") - 1
    left, right, used = (_numbers(tree, key) for key in ("left_child", "right_child", "split_feature"))
    sizes = [len(tree.get(key, "").split()) for key in ("threshold", "decision_type")]
    here = np.arange(branches)
    if (
        tree.get("Tree") != str(number)
        or leaves < 1
        or len(tree.get("leaf_value", "").split()) != leaves
        or any(size != branches for size in (len(left), len(right), len(used), *sizes))
        or not all((((child > here) & (child < branches)) | ((child < 0) & (child >= -leaves))).all()
                   for child in (left, right))
        or not ((used >= 0) & (used < features)).all()
    ):  # fmt: skip
        raise InvalidInput(f"{WHOLE}tree {number} is damaged.")


def _whole(found: dict[str, str], key: str) -> int:
    return int(found[key]) if re.fullmatch(r"[0-9]{1,9}", found.get(key, "")) else -1


def _numbers(tree: dict[str, str], key: str) -> NDArray[np.int64]:
    found = tree.get(key, "").split()
    fine = all(re.fullmatch(r"-?[0-9]{1,9}", each) for each in found)
    return np.array(found if fine else [], dtype=np.int64)
