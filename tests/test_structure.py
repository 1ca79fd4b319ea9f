"""The tree of packages: layers, names, public import paths, and packages that say what they import."""

import ast
import importlib
import re
import tomllib
from collections import defaultdict
from itertools import takewhile
from pathlib import Path

import pytest

import degroot

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "degroot"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = [re.findall(r"\w+", layer) for layer in CONTRACTS[0]["layers"]]  # the top first
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if not path.stem.endswith(("_pb2", "_pb2_grpc"))]
PACKAGES = [path.parent.relative_to(SOURCE) for path in FILES if path.name == "__init__.py"]
PUBLIC = {"baselines", "consensus", "exceptions", "jackknife", "partitions", "trust"}  # for the paper's experiments
PATHS = {
    "degroot": list(degroot.__all__),
    "degroot.trust": ["from_errors"],
    "degroot.consensus": ["Pooling", "pool", "solve", "stationary"],
    "degroot.jackknife": ["influence", "solve_without", "standard_error", "values_without", "weights_without"],
    "degroot.stacking": ["coverage", "pool", "values_without", "weigh", "weights"],
    "degroot.guard": ["consistent", "objections", "plausible", "relative_distance", "remaining", "tolerated_liars"],
    "degroot.guard.bounds": ["clip_to_peer_bounds"],
    "degroot.intervals": ["half_width", "local_error", "prediction_sets", "score", "summary", "threshold"],
    "degroot.baselines": ["average", "best_single", "cv_adaptive", "cv_static"],
    "degroot.partitions": ["by_group", "by_order", "random"],
    "degroot.maps": ["CollectedMaps", "EvidenceMap", "LifetimeBudget", "MapSettings", "evidence_at", "make_map"],
    "degroot.schema": ["Column", "Schema", "SchemaSpace", "Site", "SiteColumn", "read_schema", "read_site"],
    "degroot.models": ["from_torch", "load_model"],
    "degroot.plot": ["gains", "influence", "intervals", "rounds", "trust", "weights"],
    "degroot.batch": ["predict_files"],
    "degroot.cluster": ["Ray"],
    "degroot.saved": ["verify"],
    "degroot.mlflow": ["load_model", "log_model", "save_model"],
}


# -- layers ------------------------------------------------------------------------------------------------------------


def test_there_are_at_most_ten_layers_without_exceptions():
    assert CONTRACTS[0]["type"] == "layers"
    assert CONTRACTS[0]["exhaustive"]
    assert len(LAYERS) <= 10
    assert not [each for each in CONTRACTS if "ignore_imports" in each]


def test_every_module_and_package_at_the_top_has_one_layer():
    names = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    names |= {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert sorted(name for layer in LAYERS for name in layer) == sorted(names)


def test_there_are_at_most_twelve_flat_modules():
    assert len(list(SOURCE.glob("*.py"))) <= 12


# -- names -------------------------------------------------------------------------------------------------------------


def test_no_public_class_name_is_used_in_two_modules():
    homes = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(SOURCE)))
    assert all(path.startswith("paper/") for path in homes.pop("Settings"))  # each experiment has its own
    assert len(homes) > 100
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize("path", PATHS)
def test_public_import_paths_work(path):
    module = importlib.import_module(path)
    for name in PATHS[path]:
        assert callable(getattr(module, name)), name


# -- what packages import ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_says_what_it_imports_and_imports_no_more(package):
    about = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text(encoding="utf-8")))
    said = re.search(r"\b[Ii]mports [^.]*\.", about)
    assert said, "Its docstring must say what it imports."
    if package.parts:
        assert find_imports(package) <= read_permission(said[0], package)


def read_permission(said, package):
    """What a sentence lets a package import: names, ``the layers below``, ``other packages of the node``."""
    top, words = package.parts[0], set(re.findall(r"\w+", said))
    beside = {each.parts[1] for each in PACKAGES if len(each.parts) > 1 and each.parts[0] == top}
    allowed = words & {name for layer in LAYERS for name in layer}
    if len(package.parts) > 1:
        named = beside if "other packages of" in said else words & beside
        allowed |= {f"{top}.{name}" for name in named}
        allowed |= {f"{top}.{name}" for name in beside} if top in words else set()
        allowed.add(top)  # the modules in the package itself, such as its errors
    if "the layers below" in said:
        above = list(takewhile(lambda layer: top not in layer, LAYERS))
        allowed |= {name for layer in LAYERS[len(above) + 1 :] for name in layer} | {"degroot"}
    if "public names" in said:
        allowed |= PUBLIC | {"degroot"}
    return allowed


def find_imports(package):
    """The packages that the modules of a package, but not of those inside it, import when they run."""
    inside, found = ".".join(package.parts), set()
    for path in (SOURCE / package).glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                node.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {name_package(each.name, package.parts[0]) for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {name_package(f"{node.module}.{each.name}", package.parts[0]) for each in node.names}
    return {name for name in found if name and name != inside and not name.startswith(f"{inside}.")}


def name_package(imported, top):
    """Where an import leads: ``rules``, or ``node.peers`` inside of `top`, the node; None outside of `degroot`."""
    first, *rest = imported.split(".")
    if first != "degroot":
        return None
    if not rest or not ((SOURCE / rest[0]).is_dir() or (SOURCE / f"{rest[0]}.py").exists()):
        return "degroot"
    return ".".join(rest[:2]) if rest[0] == top and Path(*rest[:2]) in PACKAGES else rest[0]
