"""Trees in LightGBM's text files, looked at before LightGBM reads them: it takes them on trust, or ends the process."""

import re
from typing import Any

import numpy as np

from degroot.exceptions import InvalidInput

HEAD, END = b"tree\n", b"\nend of trees\n"
WHOLE = "a text file of LightGBM must be whole; "
NUMBER = r"-?(?:[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|inf|nan)"
LINE = re.compile(rf"([A-Za-z_]+)=( *(?:{NUMBER}(?: +{NUMBER})* *)?)")
NEEDED = ("left_child", "right_child", "split_feature", "threshold", "decision_type")  # of every branch
BRANCHES = (*NEEDED, "split_gain", "internal_value", "internal_weight", "internal_count")
LEAVES = ("leaf_value", "leaf_weight", "leaf_count", "leaf_const", "num_features")
CATEGORY = 1  # in a decision type: the branch asks for a category, and its threshold is the number of a set of them


def check_trees(content: bytes) -> dict[str, str]:
    """The head of the file, if all its trees are there, and every branch leads on to a later one or to a leaf."""
    if not content.startswith(HEAD):
        raise InvalidInput("a text file of LightGBM must begin with 'tree'; this one does not.")
    start, end = content.find(b"\nTree=0\n") + 1, content.find(END)
    head = dict(line.partition("=")[::2] for line in content[: start or None].decode("utf-8", "replace").splitlines())
    sizes = [int(size) for size in head.get("tree_sizes", "").split() if re.fullmatch("[0-9]{1,15}", size)]
    if not start or end < 0 or not sizes or start + sum(sizes) != end + 1:
        raise InvalidInput(f"{WHOLE}some of its trees are missing.")
    features = _features(head, len(sizes))
    for number, size in enumerate(sizes):
        if not _is_tree(content[start : start + size], number, features):
            raise InvalidInput(f"{WHOLE}tree {number} is damaged.")
        start += size
    return head


def _features(head: dict[str, str], trees: int) -> int:
    """How many features the head tells, if all that it tells fits together."""
    count, each, classes = (
        int(head[key]) if re.fullmatch("[0-9]{1,9}", head.get(key, "")) else -1
        for key in ("max_feature_idx", "num_tree_per_iteration", "num_class")
    )
    named = [len(head.get(key, "").split(" ")) for key in ("feature_names", "feature_infos")]
    if named != [count + 1, count + 1] or each < 1 or classes not in (1, each) or trees % each:
        raise InvalidInput(f"{WHOLE}its head does not fit its trees.")
    return count + 1


def _is_tree(content: bytes, number: int, features: int) -> bool:
    lines = [LINE.fullmatch(line) for line in content.decode("utf-8", "replace").splitlines() if line]
    found = {match[1]: match[2].split() for match in lines if match is not None}
    if None in lines or found.get("Tree") != [str(number)]:
        return False
    leaves, categories = (_whole(found, key) for key in ("num_leaves", "num_cat"))
    branches = leaves - 1
    single = leaves == 1  # which leaves out what it does not need
    return (
        leaves >= 1
        and categories >= 0
        and len(found.get("leaf_value", ())) == leaves
        and (single or all(key in found for key in NEEDED))
        and all(len(found[key]) == branches for key in BRANCHES if key in found)
        and all(len(found[key]) in (leaves, 0 if single else leaves) for key in LEAVES if key in found)
        and _leads_on(found, branches, features)
        and _has_sets(found, categories)
        and _is_linear_or_not(found, features)
    )


def _leads_on(found: dict[str, list[str]], branches: int, features: int) -> bool:
    """Whether every branch asks for a feature, and leads on to later branches or to leaves."""
    here, used = np.arange(branches), _wholes(found, "split_feature")
    children = [_wholes(found, key) for key in ("left_child", "right_child")]
    if used is None or any(child is None for child in children) or _wholes(found, "decision_type") is None:
        return False
    return bool(((used >= 0) & (used < features)).all()) and all(
        bool((((child > here) & (child < branches)) | ((child < 0) & (child >= -branches - 1))).all())
        for child in children
    )


def _has_sets(found: dict[str, list[str]], categories: int) -> bool:
    """Whether branches that ask for a category have their set of categories."""
    asked = [k for k, kind in enumerate(found.get("decision_type", ())) if int(kind) & CATEGORY]
    if not categories:
        return not asked
    bounds, sets = _wholes(found, "cat_boundaries"), _wholes(found, "cat_threshold")
    if bounds is None or sets is None or len(bounds) != categories + 1:
        return False
    named = [found["threshold"][k] for k in asked]
    inside = all(re.fullmatch("[0-9]{1,9}", each) and int(each) < categories for each in named)
    return inside and bounds[0] == 0 and bounds[-1] == len(sets) and bool((np.diff(bounds) > 0).all())


def _is_linear_or_not(found: dict[str, list[str]], features: int) -> bool:
    """Whether leaves with a linear model of their own have all of its parts."""
    if found.get("is_linear", ["0"]) == ["0"]:
        return True
    counts, used = _wholes(found, "num_features"), _wholes(found, "leaf_features")
    if counts is None or used is None or "leaf_const" not in found or (counts < 0).any():
        return False
    fits = counts.sum() == len(used) == len(found.get("leaf_coeff", ()))
    return bool(fits and ((used >= 0) & (used < features)).all())


def _whole(found: dict[str, list[str]], key: str) -> int:
    value = " ".join(found.get(key, ()))
    return int(value) if re.fullmatch("[0-9]{1,9}", value) else -1


def _wholes(found: dict[str, list[str]], key: str) -> Any:
    """Whole numbers, (n,); None where there are others."""
    values = found.get(key, [])
    return np.array(values, dtype=np.int64) if all(re.fullmatch("-?[0-9]{1,10}", each) for each in values) else None
