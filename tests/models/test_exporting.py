"""A model file that stores training rows stays with its owner; one with small leaves goes with a warning."""

from contextlib import suppress
from pathlib import Path

import lightgbm
import numpy as np
import onnx
import pytest
import skops.io
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import FeatureAgglomeration, KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    RANSACRegressor,
    Ridge,
    RidgeCV,
)
from sklearn.manifold import Isomap
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import (
    KernelDensity,
    KNeighborsClassifier,
    KNeighborsRegressor,
    LocalOutlierFactor,
    NearestCentroid,
    RadiusNeighborsRegressor,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, RobustScaler, StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from support.models import LABELS, X, Y
from support.refusals import complaint

from degroot import InvalidInput
from degroot.models.exporting import COPYABLE, RowMatcher, check_exportable, check_object
from degroot.models.leaves import count_in_onnx
from degroot.models.onnx_graph import inspect_graph

ROWS = X.astype(np.float32)
NUMBERS = np.digitize(Y, [-1.0, 1.0])
FEW = "leaves hold fewer than 5 rows"
SUFFIX = "must not store training rows"
OPSETS = {"": 17, "ai.onnx.ml": 3}


def name_of(model):
    return None if isinstance(model, np.ndarray) else type(model).__name__


def export_skops(model, rows=X):
    return check_exportable(Path("model.skops"), skops.io.dumps(model), rows)


def export_onnx(model, rows=X):
    return check_exportable(Path("model.onnx"), onnx_of(model), rows)


def onnx_of(model):
    return to_onnx(model, ROWS[:1], target_opset=OPSETS).SerializeToString()


def boosted(folder, model, suffix):
    path = folder / f"model{suffix}"
    if isinstance(model, lightgbm.LGBMModel):
        model.booster_.save_model(path)
    else:
        model.get_booster().save_model(path)
    return path


def small_mlp(**options):
    return MLPRegressor(max_iter=3000, tol=0.05, **options)


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.pickle", "model.pt", "model"])
def test_other_files_are_not_given_away(name):
    assert "must be a file .onnx" in complaint(lambda: check_exportable(Path(name), b"", X))


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (HuberRegressor(), Y),  # which rows were outliers
        (RANSACRegressor(random_state=0), Y),
        (Ridge(), Y),
        (LinearRegression(), np.column_stack([Y, -Y])),
        (ElasticNet(), Y),
        (Lasso(alpha=9.0), Y),
        (LogisticRegression(), LABELS),
        (LinearSVC(), LABELS),
        (RidgeCV(), Y),
        (NearestCentroid(), LABELS),
        (CalibratedClassifierCV(LogisticRegression(), cv=2), LABELS),
        (BaggingRegressor(Ridge(), 60), Y),
        (small_mlp(hidden_layer_sizes=(60,)), Y),  # as wide as there are rows
        (HistGradientBoostingRegressor(max_iter=3, early_stopping=False), Y),
        (GradientBoostingRegressor(n_estimators=60, min_samples_leaf=5, subsample=0.9), Y),  # 60 scores
        (make_pipeline(SimpleImputer(), RobustScaler(), MinMaxScaler(), Ridge()), Y),
        (make_pipeline(QuantileTransformer(n_quantiles=15), Ridge()), Y),
        (make_pipeline(RBFSampler(n_components=60), Ridge()), Y),
        (make_pipeline(FeatureAgglomeration(2), Ridge()), Y),
        (TransformedTargetRegressor(Ridge()), Y),
        (lightgbm.LGBMRegressor(n_estimators=3, verbose=-1), Y),
        (xgboost.XGBRegressor(n_estimators=3, booster="gblinear"), Y),
    ],
    ids=name_of,
)
def test_models_of_few_numbers_are_given_without_warning(model, labels):
    model.fit(X, labels)
    assert export_skops(model) == ()


ROW_STORING_MODELS = [
    (KNeighborsRegressor(), Y),
    (KNeighborsClassifier(algorithm="brute"), LABELS),
    (RadiusNeighborsRegressor(radius=9.0), Y),
    (LocalOutlierFactor(novelty=True), None),
    (GaussianProcessRegressor(), Y),
    (GaussianProcessClassifier(), LABELS),
    (SVR(), Y),
    (NuSVR(), Y),
    (SVC(kernel="linear"), LABELS),
    (NuSVC(nu=0.1), LABELS),
    (OneClassSVM(), None),
    (KernelRidge(), Y),
    (LabelPropagation(), NUMBERS),
    (LabelSpreading(), NUMBERS),
    (make_pipeline(KernelPCA(2), Ridge()), Y),
    (make_pipeline(Nystroem(n_components=5), Ridge()), Y),
    (make_pipeline(KNNImputer(), Ridge()), Y),
    (make_pipeline(Isomap(n_components=2), Ridge()), Y),
    (make_pipeline(QuantileTransformer(n_quantiles=60), Ridge()), Y),
    (make_pipeline(StandardScaler(), KNeighborsRegressor()), Y),
    (make_pipeline(ColumnTransformer([("a", KNNImputer(), [0])], remainder="passthrough"), Ridge()), Y),
    (make_pipeline(KMeans(3, n_init=1), Ridge()), Y),
    (BaggingRegressor(SVR(), 2), Y),
    (AdaBoostRegressor(KNeighborsRegressor(), n_estimators=2), Y),
    (MultiOutputRegressor(KNeighborsRegressor()), np.column_stack([Y, Y])),
    (CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2), LABELS),
    (CalibratedClassifierCV(SVC(), cv=2), LABELS),
    (TransformedTargetRegressor(SVR()), Y),
    (SelfTrainingClassifier(LogisticRegression()), np.where(np.arange(60) % 5, NUMBERS, -1)),
    (PLSRegression(2), Y),
    (RidgeCV(store_cv_results=True), Y),
    (RandomForestRegressor(20, oob_score=True, random_state=0), Y),
    (BaggingRegressor(Ridge(), 30, oob_score=True, random_state=0), Y),
]


@pytest.mark.parametrize(("model", "labels"), ROW_STORING_MODELS, ids=name_of)
def test_models_that_store_rows_or_something_of_each_are_refused(model, labels):
    model.fit(X, labels)
    assert SUFFIX in complaint(lambda: export_skops(model))


def test_isotonic_regression_keeps_labels():
    model = IsotonicRegression().fit(X[:, 0], Y)
    assert "IsotonicRegression keeps labels" in complaint(lambda: export_skops(model, X[:, :1]))


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (StackingRegressor([("a", Ridge()), ("b", KNeighborsRegressor())]), Y),
        (VotingRegressor([("a", Ridge()), ("b", SVR())]), Y),
        (GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [2, 3]}), Y),
        (KernelDensity(), None),
        (make_pipeline(Ridge()).set_params(steps=[("a", Ridge(alpha={"deep": [({"er": (X[7:8],)},)]}))]), None),
        (Ridge(alpha=[[X[3:5].tolist()]]), None),
    ],
    ids=name_of,
)
def test_rows_are_found_however_deep_in_an_object(model, labels):
    if labels is not None or isinstance(model, KernelDensity):
        model.fit(X, labels)
    assert SUFFIX in complaint(lambda: check_object(model, RowMatcher(X)))


def test_what_was_not_fitted_stores_nothing():
    choice = GridSearchCV(Pipeline([("last", Ridge())]), {"last": [Ridge(), SVR(C=1e-6)]}).fit(X, Y)
    assert check_object(choice, RowMatcher(X)) == ([], [])
    many = GridSearchCV(Ridge(), {"alpha": np.logspace(-1, 1, 60)}, cv=2).fit(X, Y)  # as many candidates as rows
    assert check_object(many, RowMatcher(X)) == ([], [])


def test_an_object_that_holds_itself_is_looked_at_once():
    model = Ridge().fit(X, Y)
    model.again, model.things = model, [model]
    assert check_object(model, RowMatcher(X)) == ([], [])


class Thing(Ridge):
    """An estimator with one attribute more."""


def with_attribute(name, value):
    thing = Thing().fit(X, Y)
    setattr(thing, name, value)
    return lambda: check_object(thing, RowMatcher(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kept_", X),
        ("kept", X[[5]]),
        ("kept_", X[[5]].astype(np.float32)),
        ("kept_", X[:9].T.copy()),
        ("kept_", X[:8].reshape(2, 4, 3)),
        ("kept_", Y),
        ("kept_", np.zeros((2, 60))),
        ("kept_", np.zeros((60, 2), int)),
        ("kept_", LABELS),
        ("kept_", LABELS.astype(object)),
        ("kept_", list(Y)),
        ("kept", np.sort(X[:, 1])),
        ("labels_", np.zeros(12)),
        ("_fit_X", np.zeros((2, 2))),
    ],
)
def test_arrays_with_rows_or_as_long_as_the_rows_are_refused(name, value):
    assert f"`{name}` of Thing" in complaint(with_attribute(name, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kept_", X[:5] + 1e-3),
        ("kept_", np.eye(3)),
        ("kept", np.zeros((2, 60))),  # a parameter
        ("train_score_", np.zeros(60)),
        ("coefs_", [np.ones((3, 60)), np.ones((60, 1))]),
        ("data_min_", X[4]),
        ("kept_", np.zeros((0, 3))),
        ("kept_", np.array(3.0)),
        ("kept_", None),
    ],
)
def test_other_arrays_are_not(name, value):
    assert with_attribute(name, value)() == ([], [])


def test_as_many_features_as_rows_say_nothing():
    square = np.random.default_rng(1).normal(size=(30, 30))
    assert export_skops(Ridge().fit(square, square[:, 0] + 1), square) == ()
    assert (
        check_exportable(
            Path("model.onnx"), to_onnx(Ridge().fit(square, square[:, 0]), square[:1]).SerializeToString(), square
        )
        == ()
    )


def test_zeros_are_no_rows():
    rows = np.where(X > 1, 1.0, 0.0)
    assert export_skops(Lasso(alpha=9.0).fit(rows, Y), rows) == ()


def test_whole_numbers_are_rows_where_they_are_many():
    rows = np.random.default_rng(2).integers(0, 50, size=(40, 3)).astype(float)
    own = RowMatcher(rows)
    assert own.count_matches(rows[:1]) == 0
    assert own.count_matches(rows[:6]) == 6
    assert own.count_matches(np.vstack([rows[:6], 0.5 + rows[:9]])) == 0
    missing = np.where(rows == rows[0, 0], np.nan, rows / 7)
    assert RowMatcher(missing).count_matches(missing) == len(np.unique(missing, axis=0))


# leaves


def share(counts):
    counts = np.concatenate(counts)
    return f"{(counts < 5).sum()} of {len(counts)} {FEW} (the smallest {counts.min()}): whoever has the file can read"


def leaf_counts(trees, rows=ROWS):
    return [np.unique(tree.apply(rows), return_counts=True)[1] for tree in trees]


@given(
    leaf=st.integers(1, 6),
    depth=st.integers(1, 8),
    seed=st.integers(0, 9),
    grid=st.sampled_from([0.0, 0.5]),
    kind=st.sampled_from([DecisionTreeRegressor, DecisionTreeClassifier]),
)
@settings(max_examples=25, deadline=None)
def test_leaves_hold_as_many_rows_as_scikit_learn_says(leaf, depth, seed, grid, kind):
    rows = np.random.default_rng(seed).normal(size=(50, 3)).astype(np.float32)
    rows = np.round(rows / grid) * grid if grid else rows
    rows = rows.astype(np.float32)
    labels = np.digitize(rows.sum(axis=1), [-1, 1]) + 0
    tree = kind(min_samples_leaf=leaf, max_depth=depth, random_state=0).fit(rows, labels)
    expected = leaf_counts([tree], rows)[0]
    content = to_onnx(tree, rows[:1], target_opset=OPSETS).SerializeToString()
    assert sorted(count_in_onnx(content, inspect_graph(content), rows)) == sorted(expected)
    assert sorted(check_object(tree, RowMatcher(rows))[0][0]) == sorted(expected)


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (DecisionTreeRegressor(max_depth=4), Y),
        (ExtraTreesRegressor(4, max_depth=4), Y),
        (RandomForestClassifier(4, bootstrap=False), LABELS),
        (GradientBoostingRegressor(n_estimators=4), Y),
        (GradientBoostingClassifier(n_estimators=4), LABELS),
        (make_pipeline(StandardScaler(), DecisionTreeRegressor()), Y),
        (make_pipeline(MinMaxScaler(), RandomForestRegressor(3, bootstrap=False)), Y),
        (BaggingRegressor(DecisionTreeRegressor(), 3, bootstrap=False), Y),
    ],
    ids=name_of,
)
def test_small_leaves_are_told_alike_of_skops_and_onnx(model, labels):
    model.fit(X, labels)
    (warning,) = export_skops(model)
    assert FEW in warning
    assert "\n" not in warning
    assert export_onnx(model) == (warning,)


def test_the_warning_counts_the_leaves_of_all_trees():
    model = RandomForestRegressor(5, bootstrap=False, max_features=1, random_state=0).fit(ROWS, Y)
    assert share(leaf_counts(model.estimators_)) in export_skops(model)[0]
    assert share(leaf_counts(model.estimators_)) in export_onnx(model)[0]
    boosting = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2).fit(X, Y)
    nodes = [tree.nodes for (tree,) in boosting._predictors]
    assert share([each["count"][each["is_leaf"] == 1] for each in nodes]) in export_skops(boosting)[0]


def test_leaves_of_several_rows_are_not_warned_of():
    model = RandomForestRegressor(5, bootstrap=False, min_samples_leaf=5).fit(ROWS, Y)
    assert export_skops(model) == export_onnx(model) == ()


@pytest.mark.parametrize("suffix", [".txt", ".lgb"])
@pytest.mark.parametrize(("least", "warned"), [(2, True), (5, False)])
def test_leaves_of_lightgbm(tmp_path, suffix, least, warned):
    model = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=least, n_jobs=1, verbose=-1).fit(X, Y)
    path = boosted(tmp_path, model, suffix)
    reached = model.predict(X, pred_leaf=True).T
    expected = share([np.unique(each, return_counts=True)[1] for each in reached])
    for warnings in (check_exportable(path, path.read_bytes(), X), export_skops(model)):
        assert len(warnings) == warned
        assert not warned or expected in warnings[0]


@pytest.mark.parametrize("suffix", [".ubj", ".json", ".xgb"])
@pytest.mark.parametrize(
    ("model", "labels", "warned"),
    [
        (xgboost.XGBRegressor(n_estimators=3, n_jobs=1), Y, True),
        (xgboost.XGBRegressor(n_estimators=3, n_jobs=1, min_child_weight=5), Y, False),
        (xgboost.XGBRegressor(n_estimators=3, n_jobs=1, booster="dart", num_parallel_tree=2), Y, True),
        (xgboost.XGBRegressor(n_estimators=3, booster="gblinear"), Y, False),
        (xgboost.XGBClassifier(n_estimators=3, n_jobs=1, min_child_weight=0.1), NUMBERS, True),
        (xgboost.XGBRegressor(n_estimators=3, n_jobs=1, objective="count:poisson"), np.abs(Y), True),
    ],
)
def test_leaves_of_xgboost(tmp_path, suffix, model, labels, warned):
    if suffix == ".xgb":
        model.fit(X, labels)
        path = boosted(tmp_path, model, ".ubj").rename(tmp_path / "model.xgb")
    else:
        path = boosted(tmp_path, model.fit(X, labels), suffix)
    warnings = check_exportable(path, path.read_bytes(), X)
    assert len(warnings) == warned
    if warned:
        reached = model.apply(X).reshape(len(X), -1).T
        assert share([np.unique(each, return_counts=True)[1] for each in reached]) in warnings[0]
        assert export_skops(model) == warnings


def test_labels_come_with_classifiers_that_know_them_by_number(tmp_path):
    path = boosted(tmp_path, lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1).fit(X, NUMBERS), ".txt")
    assert check_exportable(path, path.read_bytes(), X, ["low", "mid", "high"]) == ()
    assert "3 different labels" in complaint(lambda: check_exportable(path, path.read_bytes(), X, ["low", "mid"]))


def ensemble(modes, splits, truths, falses, true_leafs, false_leafs, leaves, roots=(0,), **more):
    def tensor(values, kind):
        return numpy_helper.from_array(np.array(values, kind))

    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, tree_roots=list(roots),
        nodes_featureids=[0] * len(modes), nodes_modes=tensor(modes, np.uint8), nodes_splits=tensor(splits, np.float32),
        nodes_truenodeids=truths, nodes_falsenodeids=falses, nodes_trueleafs=true_leafs, nodes_falseleafs=false_leafs,
        leaf_targetids=[0] * leaves, leaf_weights=tensor(np.arange(leaves), np.float32), **more,
    )  # fmt: skip
    return model_of([node])


def model_of(nodes, initializers=(), width=3):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
        initializers,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def test_leaves_of_the_newer_operator_for_trees():
    content = ensemble([0, 3], [0.0, 1.0], [0, 1], [1, 2], [1, 1], [0, 1], 3)
    first = ROWS[:, 0]
    expected = [(first <= 0).sum(), (first > 1).sum(), ((first > 0) & (first <= 1)).sum()]
    assert count_in_onnx(content, inspect_graph(content), X).tolist() == expected
    assert check_exportable(Path("model.onnx"), content, X) == ()
    rows = np.vstack([X, [[np.nan, 0, 0]]])
    assert count_in_onnx(content, inspect_graph(content), rows).tolist() == np.add(expected, [0, 0, 1]).tolist()
    content = ensemble([0, 3], [0.0, 1.0], [0, 1], [1, 2], [1, 1], [0, 1], 3, nodes_missing_value_tracks_true=[1, 0])
    assert count_in_onnx(content, inspect_graph(content), rows).tolist() == np.add(expected, [1, 0, 0]).tolist()


def test_leaves_behind_a_question_for_members():
    sets = numpy_helper.from_array(np.array([1, 2, np.nan, 5, np.nan], np.float32))
    content = ensemble([6, 6], [0.0, 0.0], [0, 1], [1, 2], [1, 1], [0, 1], 3, membership_values=sets)
    rows = np.array([[1, 0, 0], [2, 0, 0], [5, 0, 0], [3, 0, 0], [3, 0, 0], [9, 0, 0]], float)
    assert count_in_onnx(content, inspect_graph(content), rows).tolist() == [2, 1, 3]


def test_trees_within_a_branch_cannot_be_counted_and_that_is_told():
    tree = onnx.load_model_from_string(ensemble([0], [0.0], [0], [1], [1], [1], 2)).graph.node[0]
    tree.output[0] = "z"
    branch = helper.make_graph([tree], "b", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, [None, 1])])
    switch = numpy_helper.from_array(np.array(True), "c")
    content = model_of([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], [switch])
    (warning,) = check_exportable(Path("model.onnx"), content, X)
    assert "could not be counted" in warning


# ONNX


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (Ridge(), Y),
        (LogisticRegression(), LABELS),
        (small_mlp(hidden_layer_sizes=(7,)), Y),
        (make_pipeline(SimpleImputer(), RobustScaler(), MinMaxScaler(), Ridge()), Y),
        (make_pipeline(QuantileTransformer(n_quantiles=15), Ridge()), Y),
        (CalibratedClassifierCV(LogisticRegression(), cv=2), LABELS),
    ],
    ids=name_of,
)
def test_onnx_models_of_few_numbers_are_given_without_warning(model, labels):
    model.fit(X, labels)
    assert export_onnx(model) == ()


@pytest.mark.parametrize(
    ("model", "labels", "reason"),
    [
        (SVR(), Y, "SVMRegressor works with support vectors"),
        (KNeighborsRegressor(), Y, "nearest neighbours"),
        (make_pipeline(StandardScaler(), KNeighborsRegressor()), Y, "nearest neighbours"),
        (RadiusNeighborsRegressor(radius=9.0), Y, "60 of the 60 own rows"),
        (GaussianProcessRegressor(), Y, "60 of the 60 own rows"),
        (make_pipeline(StandardScaler(), GaussianProcessRegressor()), Y, "as long as the 60 rows"),
    ],
)
def test_onnx_models_that_store_rows_are_refused(model, labels, reason):
    model.fit(X, labels)
    answer = complaint(lambda: export_onnx(model))
    assert SUFFIX in answer
    assert reason in answer


@pytest.mark.filterwarnings("ignore::FutureWarning")  # skl2onnx asks for what scikit-learn is about to drop
def test_an_onnx_support_vector_classifier_is_refused():
    assert "SVMClassifier works with support vectors" in complaint(lambda: export_onnx(SVC().fit(X, LABELS)))


def test_an_onnx_model_with_all_values_of_a_feature_is_refused():
    model = make_pipeline(QuantileTransformer(n_quantiles=25), Ridge()).fit(X[:25], Y[:25])
    assert "the values of a whole feature" in complaint(lambda: export_onnx(model, X[:25]))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_own_rows_among_the_constants_of_a_graph_are_found(kind):
    def file_with(table):
        hidden = numpy_helper.from_array(table.astype(kind), "hidden")
        return model_of([helper.make_node("Identity", ["x"], ["y"])], [hidden])

    other = np.random.default_rng(5).normal(size=(9, 3))
    assert check_exportable(Path("model.onnx"), file_with(other), X) == ()
    for table in (np.vstack([other, X[7:8]]), np.vstack([other, X[7:8]]).T, X[7:11].reshape(1, 2, 2, 3)):
        assert "own rows" in complaint(lambda table=table: check_exportable(Path("m.onnx"), file_with(table), X))
    assert "as long as" in complaint(lambda: check_exportable(Path("m.onnx"), file_with(other[:, :1] * Y), X))


def test_an_onnx_file_with_tensors_elsewhere_is_refused_before_it_is_opened():
    tensor = TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    content = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])
    assert "in other files" in complaint(lambda: check_exportable(Path("model.onnx"), content, X))


# what is damaged


@pytest.mark.parametrize("suffix", COPYABLE)
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"{}", b"tree\n", b"\x00" * 99])
def test_broken_files_are_refused_in_a_line(suffix, content):
    complaint(lambda: check_exportable(Path(f"model{suffix}"), content, X))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_damaged_onnx_files_are_refused_in_a_line_or_taken(data):
    content = bytearray(DAMAGED)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    with suppress(InvalidInput):
        check_exportable(Path("model.onnx"), bytes(content), X)


DAMAGED = onnx_of(DecisionTreeRegressor(max_depth=2).fit(X, Y))


def test_objects_with_other_parts_than_their_type_has_are_refused_in_a_line():
    model = QuantileTransformer(n_quantiles=9).fit(X)
    model.quantiles_ = 7
    assert "one that can be checked" in complaint(lambda: export_skops(make_pipeline(model, Ridge().fit(X, Y))))


@pytest.mark.parametrize("rows", [X[0], X[:0], [["a", "b", "c"]], X[:, :2]])
def test_the_rows_must_be_those_of_the_model(rows):
    assert "rows must" in complaint(lambda: export_skops(Ridge().fit(X, Y), rows))
