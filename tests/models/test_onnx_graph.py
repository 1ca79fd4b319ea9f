"""What stands in an ONNX file is seen before anything of it runs, wherever in the file it is."""

from contextlib import suppress

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from support.models import LABELS, X, Y
from support.refusals import complaint

from degroot import InvalidInput
from degroot.models.onnx_graph import (
    MOST_MESSAGES,
    check_no_external_data,
    find_hazard,
    inspect_graph,
    with_outputs,
)
from degroot.models.onnx_hazards import IN_PROCESS

ROWS = X.astype(np.float32)
FLOAT = TensorProto.FLOAT
SIZED_BY_VALUES = (
    "ConstantOfShape", "Expand", "Tile", "Range", "NonZero", "Compress", "Pad", "Resize", "Upsample", "OneHot", "TopK",
)  # fmt: skip


def external(name="w", location=True):
    tensor = TensorProto(name=name, dims=[3], data_type=FLOAT)
    tensor.external_data.add(key="location", value="/etc/passwd")
    if location:
        tensor.data_location = TensorProto.EXTERNAL
    return tensor


def constant(tensor, name="c"):
    return helper.make_node("Constant", [], [name], value=tensor)


def graph_of(nodes, initializers=(), sparse=()):
    rows, answer = (helper.make_tensor_value_info(name, FLOAT, [None, 3]) for name in "xy")
    return helper.make_graph(nodes, "g", [rows], [answer], list(initializers), sparse_initializer=list(sparse))


def content_of(nodes=(), initializers=(), sparse=(), **options):
    nodes = nodes or [helper.make_node("Identity", ["x"], ["y"])]
    return helper.make_model(graph_of(nodes, initializers, sparse), **options).SerializeToString()


def branch(*nodes, initializers=()):
    return helper.make_graph(list(nodes), "b", [], [helper.make_tensor_value_info("z", FLOAT, [3])], list(initializers))


def choice(then, otherwise=None):
    return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise or then)


IDENTITY = helper.make_node("Identity", ["x"], ["z"])


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (Ridge(), Y),
        (PoissonRegressor(), np.abs(Y)),
        (LogisticRegression(), LABELS),
        (RandomForestRegressor(3), Y),
        (RandomForestClassifier(3), LABELS),
        (GradientBoostingClassifier(n_estimators=3), LABELS),
        (MLPRegressor(hidden_layer_sizes=(4,), max_iter=2000, tol=0.1), Y),
        (MLPClassifier(hidden_layer_sizes=(4,), max_iter=2000, tol=0.1, activation="tanh"), LABELS),
        (make_pipeline(SimpleImputer(), StandardScaler(), MinMaxScaler(clip=True), Ridge()), Y),
    ],
)
def test_the_usual_models_may_run_inside_a_node(model, labels):
    assert find_hazard(to_onnx(model.fit(ROWS, labels), ROWS[:1]).SerializeToString()) == ""


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([constant(helper.make_tensor("t", TensorProto.BOOL, [], [1])), choice(branch(IDENTITY))], "(If)"),
        ([helper.make_node("Loop", ["n", "c", "x"], ["y"], body=branch(IDENTITY))], "(Loop)"),
        ([helper.make_node("Scan", ["x"], ["y"], body=branch(IDENTITY), num_scan_inputs=1)], "(Scan)"),
        ([choice(branch(helper.make_node("Loop", ["n"], ["z"], body=branch(IDENTITY))))], "(If, Loop)"),
        ([helper.make_node("Add", ["x", "x"], ["y"], domain="evil.example")], "harmless: evil.example.Add"),
        ([helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")], "com.microsoft.Inverse"),
        ([helper.make_node("O" * 500, ["x"], ["y"])], "OOO…"),
        ([helper.make_node(f"Odd{k}", ["x"], ["y"]) for k in range(5)], "Odd0, Odd1, Odd2 and 2 more"),
        *[([helper.make_node(name, ["x"], ["y"])], f"harmless: {name}") for name in SIZED_BY_VALUES],
    ],
)
def test_other_operators_may_not_run_inside_a_node(nodes, reason):
    hazard = find_hazard(content_of(nodes))
    assert reason in hazard
    assert "\n" not in hazard


def tree_step(nodes, operator="TreeEnsembleRegressor", **changes):
    """A step with one tree. nodes: (mode, feature, true, false)."""
    modes, features, truths, falses = (list(each) for each in zip(*nodes, strict=True))
    leaves = [k for k, mode in enumerate(modes) if mode == "LEAF"]
    held = {
        "n_targets": 1, "nodes_treeids": [0] * len(nodes), "nodes_nodeids": list(range(len(nodes))),
        "nodes_modes": modes, "nodes_featureids": features, "nodes_truenodeids": truths, "nodes_falsenodeids": falses,
        "nodes_values": [0.5] * len(nodes), "target_treeids": [0] * len(leaves), "target_nodeids": leaves,
        "target_ids": [0] * len(leaves), "target_weights": [1.0] * len(leaves),
    }  # fmt: skip
    held = {name: value for name, value in (held | changes).items() if value is not None}
    return helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **held)


TREE = [("BRANCH_LEQ", 0, 1, 2), ("LEAF", 0, 0, 0), ("BRANCH_LT", 1, 3, 4), ("LEAF", 0, 0, 0), ("LEAF", 0, 0, 0)]


def change_tree(place, **fields):
    kinds = ("mode", "feature", "true", "false")
    changed = tuple(fields.get(kind, value) for kind, value in zip(kinds, TREE[place], strict=True))
    return [*TREE[:place], changed, *TREE[place + 1 :]]


def test_a_tree_may_run_inside_a_node():
    assert find_hazard(content_of([tree_step(TREE)])) == ""


@pytest.mark.parametrize(
    "step",
    [
        tree_step([("BRANCH_LEQ", 0, 1, 2), ("LEAF", 0, 0, 0), ("BRANCH_LEQ", 0, 3, 4), ("BRANCH_LEQ", 1, 2, 5),
                   ("LEAF", 0, 0, 0), ("LEAF", 0, 0, 0)]),  # back to an inner node: endless for some rows
        tree_step(change_tree(2, true=0)),  # back to the root
        tree_step(change_tree(2, true=2)),
        tree_step(change_tree(2, true=1)),  # a node with two parents
        tree_step(change_tree(2, true=4)),
        tree_step(change_tree(2, true=77)),
        tree_step([*TREE, ("BRANCH_LEQ", 0, 6, 7), ("BRANCH_LEQ", 0, 5, 8), ("LEAF", 0, 0, 0), ("LEAF", 0, 0, 0)],
                  nodes_treeids=[0] * 5 + [1] * 4, target_treeids=[0, 0, 0, 1, 1]),  # a tree without a root
        tree_step(TREE, nodes_treeids=[0, 0, 0, 1, 1]),  # a child in another tree
        tree_step([("BRANCH_LEQ", 0, k + 1, k + 2) if k % 2 == 0 else ("LEAF", 0, 0, 0) for k in range(2200)]
                  + [("LEAF", 0, 0, 0)]),  # so deep that recursion may overflow the stack
        tree_step(change_tree(0, feature=-1)),
        tree_step(change_tree(0, feature=2**32 - 1)),
        tree_step(TREE, target_ids=[0, 0, 1]),
        tree_step(TREE, target_ids=[0, 0, -1]),
        tree_step(TREE, n_targets=2**40),
        tree_step(TREE, target_weights=[1.0]),
        tree_step(TREE, target_nodeids=[1, 3, 2]),
        tree_step(TREE, nodes_nodeids=None),
        tree_step(TREE, n_targets=1.5),
        tree_step(TREE, base_values=[0.0, 0.0]),
        tree_step(TREE, "TreeEnsembleClassifier", classlabels_int64s=[0, 1]),
    ],
)  # fmt: skip
def test_trees_that_are_not_well_formed_may_not_run_inside_a_node(step):
    assert find_hazard(content_of([step])).startswith("has trees that are not well-formed")


def newer_tree(truths, roots=(0,), targets=(0, 0, 0)):
    def tensor(values, kind):
        return numpy_helper.from_array(np.array(values, kind))

    return helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, tree_roots=list(roots), nodes_featureids=[0, 1],
        nodes_modes=tensor([0, 0], np.uint8), nodes_splits=tensor([0.0, 1.0], np.float32), nodes_truenodeids=truths,
        nodes_falsenodeids=[1, 2], nodes_trueleafs=[1, 0 if truths[1] < 1 else 1], nodes_falseleafs=[0, 1],
        leaf_targetids=list(targets), leaf_weights=tensor([1, 2, 3], np.float32),
    )  # fmt: skip


def test_trees_of_the_newer_operator_are_looked_at_too():
    assert find_hazard(content_of([newer_tree([0, 1])])) == ""
    for step in (
        newer_tree([0, 0]),
        newer_tree([2, 1]),
        newer_tree([0, 1], (0, 1)),
        newer_tree([0, 1], (0,), [0, 0, 7]),
    ):
        assert find_hazard(content_of([step])).startswith("has trees that are not well-formed")


def cast(name, to=TensorProto.INT64):
    return helper.make_node("Cast", ["x"], [name], to=to)


WHOLE = numpy_helper.from_array(np.array([1, 2, -1]), "w")
HALF = numpy_helper.from_array(ROWS[:1], "w")


@pytest.mark.parametrize("division", ["Div", "Mod"])
@pytest.mark.parametrize(
    ("nodes", "initializers"),
    [
        ([cast("c")], ()),  # of -2**63 and -1: SIGFPE
        ([cast("c", TensorProto.INT8)], ()),
        ([helper.make_node("ArgMax", ["x"], ["c"])], ()),
        ([helper.make_node("Shape", ["x"], ["c"])], ()),
        ([constant(WHOLE)], ()),
        ([helper.make_node("Constant", [], ["c"], value_ints=[1, -1])], ()),
        ([helper.make_node("Identity", ["w"], ["c"])], [WHOLE]),
    ],
)
def test_divisions_may_not_run_inside_a_node_where_there_are_integers(division, nodes, initializers):
    content = content_of([*nodes, helper.make_node(division, ["c", "c"], ["y"])], initializers)
    assert find_hazard(content).startswith("may divide integers")
    without = content_of([*nodes, helper.make_node("Mul", ["c", "c"], ["y"])], initializers)
    assert find_hazard(without) == ""


def test_divisions_of_inputs_that_are_integers_may_not_run_inside_a_node():
    model = onnx.load_model_from_string(content_of([helper.make_node("Div", ["x", "w"], ["y"])], [HALF]))
    assert find_hazard(model.SerializeToString()) == ""
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    assert find_hazard(model.SerializeToString()).startswith("may divide integers")


def linear(count, source="x", operator="LinearRegressor", **more):
    held = {"coefficients": [1.0] * count} | more
    return helper.make_node(operator, [source], ["y"], domain="ai.onnx.ml", **held)


def classifier(count, intercepts, labels, source="x"):
    told = {"intercepts": [0.0] * intercepts, "classlabels_ints": list(range(labels))}
    return linear(count, source, "LinearClassifier", **told)


def extract(name):
    return helper.make_node("ArrayFeatureExtractor", ["x", name], ["y"], domain="ai.onnx.ml")


@pytest.mark.parametrize(
    ("nodes", "initializers"),
    [
        ([linear(3)], ()),
        ([linear(6, targets=2)], ()),
        ([helper.make_node("Add", ["x", "w"], ["c"]), linear(3, "c")], [HALF]),
        ([classifier(3, 1, 2)], ()),
        ([classifier(9, 3, 3)], ()),
        ([helper.make_node("Reshape", ["x", "w"], ["y"])], [WHOLE]),
        ([constant(WHOLE), helper.make_node("Reshape", ["x", "c"], ["y"])], ()),
        ([helper.make_node("ArgMax", ["x"], ["c"]), extract("c")], ()),
        ([extract("w")], [numpy_helper.from_array(np.array([2, 0]), "w")]),
    ],
)
def test_steps_whose_memory_follows_from_the_file_may_run_inside_a_node(nodes, initializers):
    assert find_hazard(content_of(nodes, initializers)) == ""


@pytest.mark.parametrize(
    ("nodes", "initializers", "step"),
    [
        ([linear(2)], (), "LinearRegressor"),
        ([linear(3, targets=2)], (), "LinearRegressor"),
        ([helper.make_node("Flatten", ["x"], ["c"], axis=0), linear(3, "c")], (), "LinearRegressor"),
        ([helper.make_node("Identity", ["c"], ["c"]), linear(3, "c")], (), "LinearRegressor"),
        ([helper.make_node("Add", ["x", "w"], ["c"]), linear(3, "c")], [numpy_helper.from_array(ROWS[:1, None], "w")],
         "LinearRegressor"),
        ([classifier(3, 3, 3)], (), "LinearClassifier"),
        ([classifier(9, 3, 2)], (), "LinearClassifier"),
        ([cast("c"), helper.make_node("Reshape", ["x", "c"], ["y"])], (), "Reshape"),
        ([cast("c"), helper.make_node("ReduceSum", ["x", "c"], ["y"])], (), "ReduceSum"),
        ([cast("c"), extract("c")], (), "ArrayFeatureExtractor"),
        ([extract("w")], [WHOLE], "ArrayFeatureExtractor"),
    ],
)  # fmt: skip
def test_steps_whose_memory_depends_on_the_rows_may_not_run_inside_a_node(nodes, initializers, step):
    assert find_hazard(content_of(nodes, initializers)) == f"has a step whose memory depends on the rows: {step}"


def test_the_default_domain_has_two_names():
    nodes = [helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")]
    assert inspect_graph(content_of(nodes)).operators == {"Relu"} <= IN_PROCESS


def test_functions_are_looked_into_and_may_not_run_inside_a_node():
    made = helper.make_function(
        "own", "Twice", ["a"], ["b"], [constant(external()), helper.make_node("Add", ["a", "a"], ["b"])], []
    )
    content = content_of([helper.make_node("Twice", ["x"], ["y"], domain="own")], functions=[made])
    graph = inspect_graph(content)
    assert graph.functions
    assert graph.external_data
    assert graph.operators == {"own.Twice", "Add", "Constant"}
    del made.node[0]
    assert find_hazard(content_of(functions=[made])) == "defines functions of its own"


def in_function_default(tensor):
    made = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Identity", ["a"], ["b"])], [])
    made.attribute_proto.append(helper.make_attribute("w", tensor))
    return content_of(functions=[made])


def in_training(tensor):
    model = onnx.load_model_from_string(content_of())
    model.training_info.add().algorithm.initializer.append(tensor)
    return model.SerializeToString()


@pytest.mark.parametrize("location", [True, False])
@pytest.mark.parametrize(
    "place",
    [
        lambda tensor: content_of(initializers=[tensor]),
        lambda tensor: content_of([constant(tensor)]),
        lambda tensor: content_of([helper.make_node("Odd", ["x"], ["y"], several=[tensor])]),
        lambda tensor: content_of([choice(branch(IDENTITY), branch(constant(tensor, "z")))]),
        lambda tensor: content_of([choice(branch(choice(branch(IDENTITY, initializers=[tensor]))))]),
        lambda tensor: content_of(
            [helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", nodes_splits=tensor)]
        ),
        lambda tensor: content_of(
            sparse=[onnx.SparseTensorProto(values=tensor, indices=numpy_helper.from_array(np.arange(3)), dims=[9])]
        ),
        lambda tensor: content_of(
            sparse=[onnx.SparseTensorProto(values=numpy_helper.from_array(ROWS[0]), indices=tensor, dims=[9])]
        ),
        in_function_default,
        in_training,
    ],
)
def test_tensors_in_other_files_are_seen_wherever_they_are(place, location):
    content = place(external(location=location))
    assert inspect_graph(content).external_data
    assert find_hazard(content) == "keeps some of its tensors in other files"
    assert "in other files" in complaint(lambda: check_no_external_data(content))
    check_no_external_data(content_of())


def test_a_field_that_stands_twice_is_read_as_onnxruntime_reads_it():
    first = content_of(initializers=[numpy_helper.from_array(ROWS[0], "w")])
    second = content_of([helper.make_node("Loop", ["n"], ["y"], body=branch(IDENTITY))], [external()])
    graph = inspect_graph(first + second)
    assert graph.operators == {"Identity", "Loop"}
    assert graph.external_data
    assert len(graph.constants) == 1


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@given(
    values=arrays.arrays(np.float64, arrays.array_shapes(min_dims=0, max_dims=3), elements=st.floats(-9, 9, width=16))
)
@settings(max_examples=20)
def test_constants_are_what_was_written(kind, raw, values):
    array = values.astype(kind)
    if raw:
        tensor = numpy_helper.from_array(array, "w")
    else:
        tensor = helper.make_tensor("w", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.ravel())
    for content in (
        content_of(initializers=[tensor]),
        content_of([constant(tensor)]),
        content_of([choice(branch(constant(tensor, "z")), branch(IDENTITY))]),
    ):
        (found,) = inspect_graph(content).constants
        np.testing.assert_array_equal(found, array, strict=True)


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_constants_are_dense_ones_and_may_not_run_inside_a_node(flat):
    dense = np.zeros((4, 3), np.float32)
    dense[[0, 2, 3], [1, 0, 2]] = [1.5, 2.5, 3.5]
    places = np.flatnonzero(dense) if flat else np.argwhere(dense)
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(dense[dense != 0], "w"),
        indices=numpy_helper.from_array(places.astype(np.int64)),
        dims=dense.shape,
    )
    (found,) = inspect_graph(content_of(sparse=[sparse])).constants
    np.testing.assert_array_equal(found, dense)
    assert find_hazard(content_of(sparse=[sparse])) == "holds sparse tensors"
    sparse.dims[:] = [1 << 40, 1 << 20]
    assert "16 times the size" in complaint(lambda: inspect_graph(content_of(sparse=[sparse])))
    sparse.dims[:] = [2, 2]
    assert "must be whole" in complaint(lambda: inspect_graph(content_of(sparse=[sparse])))


@pytest.mark.parametrize("dims", [[1 << 40], [1 << 32, 1 << 32], [-1], [-3, -1], [4], [], [1] * 100])
@pytest.mark.parametrize("raw", [True, False])
def test_forged_shapes_take_no_memory(dims, raw):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims)
    if raw:
        tensor.raw_data = ROWS[0].tobytes()
    else:
        tensor.float_data.extend(ROWS[0])
    assert "do not fit its shape" in complaint(lambda: inspect_graph(content_of(initializers=[tensor])))


def test_tensors_of_other_kinds_are_left_out():
    tensors = [numpy_helper.from_array(np.arange(3), "i"), helper.make_tensor("s", TensorProto.STRING, [1], ["a"])]
    assert inspect_graph(content_of(initializers=tensors)).constants == ()


def test_files_of_very_many_parts_are_refused():
    content = content_of() + onnx.ModelProto(graph=onnx.GraphProto(node=[onnx.NodeProto()] * 2)).SerializeToString()
    assert "" in inspect_graph(content).operators
    many = b"\x0a\x00" * (MOST_MESSAGES + 1)
    size = bytes([len(many) & 127 | 128, len(many) >> 7 & 127 | 128, len(many) >> 14])
    assert "parts; this one has more" in complaint(lambda: inspect_graph(b"\x3a" + size + many))


def test_the_format_of_onnxruntime_is_refused():
    assert "format of onnxruntime" in complaint(lambda: find_hazard(b"\x0a\x06" + b"\x00\x00ORTM" + content_of()))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_files_are_read_or_refused(data):
    content = bytearray(data.draw(st.sampled_from(DAMAGED)))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    with suppress(InvalidInput):
        find_hazard(bytes(content))


FOREST = to_onnx(RandomForestClassifier(1, max_depth=2).fit(ROWS, LABELS), ROWS[:1]).SerializeToString()
DAMAGED = (
    FOREST,
    FOREST + content_of([choice(branch(constant(numpy_helper.from_array(ROWS[:2]), "z")))]),
    content_of([newer_tree([0, 1])]),
    content_of([helper.make_node("Add", ["x", "w"], ["c"]), classifier(9, 3, 3, "c"), extract("w")], [HALF]),
)


def test_an_onnx_nearest_neighbour_shows_its_rows():
    graph = inspect_graph(to_onnx(KNeighborsRegressor().fit(ROWS, Y), ROWS[:1]).SerializeToString())
    assert {"Scan", "TopK"} <= graph.operators
    assert any(array.shape == ROWS.shape and (array == ROWS).all() for array in graph.constants)


def test_a_graph_can_give_more_of_its_tensors():
    model = make_pipeline(StandardScaler(), Ridge()).fit(ROWS, Y)
    content = to_onnx(model, ROWS[:1]).SerializeToString()
    step = onnx.load_model_from_string(content).graph.node[0].output[0]
    session = onnxruntime.InferenceSession(with_outputs(content, [step]), providers=["CPUExecutionProvider"])
    (scaled,) = session.run([step], {"X": ROWS})
    np.testing.assert_allclose(scaled, model[0].transform(ROWS), atol=1e-5)
