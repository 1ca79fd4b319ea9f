"""Models that an attacker crafts: they predict as others do, and fail on rows that it wants to know of."""

import numpy as np


def make_linear(coefficients, intercept, tripwire=None):
    """A linear model of float64 as ONNX file, in bytes; on a row that equals `tripwire` (d,) it says NaN."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    d = len(coefficients)
    constants = {
        "slopes": np.asarray(coefficients, np.float64).reshape(d, 1), "start": np.array([float(intercept)]),
    }  # fmt: skip
    nodes = [helper.make_node("MatMul", ["X", "slopes"], ["product"])]
    last = ["product", "start"]
    if tripwire is not None:
        constants |= {"row": np.asarray(tripwire, np.float64).reshape(1, d), "axes": np.array([1], np.int64)}
        nodes += [
            helper.make_node("Sub", ["X", "row"], ["off"]),
            helper.make_node("Abs", ["off"], ["size"]),
            helper.make_node("ReduceSum", ["size", "axes"], ["gap"], keepdims=1),
            helper.make_node("Div", ["gap", "gap"], ["one"]),  # 0 / 0 where the row is the one
            helper.make_node("Mul", ["product", "one"], ["tripped"]),
        ]
        last[0] = "tripped"
    nodes.append(helper.make_node("Add", last, ["variable"]))
    graph = helper.make_graph(
        nodes, "linear", [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, d])],
        [helper.make_tensor_value_info("variable", TensorProto.DOUBLE, [None, 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()
