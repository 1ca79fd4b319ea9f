"""What of an ONNX file may run inside a node, in onnxruntime, and why other files may not.

A file that is tried in a process of its own may still kill or hang a node, for other rows than it was tried on. So the
operators that may run are a list, and some of them have conditions: where not all versions of onnxruntime since 1.17
look themselves, what an operator reads and writes must follow from the file.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from degroot.models.onnx_trees import ML, TREE_CLASSIFIER, TREES, is_harmless_forest

if TYPE_CHECKING:
    from degroot.models.onnx_graph import OnnxGraph

CONTROL_FLOW = ("If", "Loop", "Scan")
REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
EXTRACTOR, LINEAR_CLASSIFIER, LINEAR_REGRESSOR = (
    ML + name for name in ("ArrayFeatureExtractor", "LinearClassifier", "LinearRegressor")
)
IN_PROCESS = frozenset((
    # elementwise arithmetic and comparison
    "Abs", "Add", "And", "Ceil", "Clip", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual", "IsInf",
    "IsNaN", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal",
    "Round", "Sign", "Sqrt", "Sub", "Sum", "Where", "Xor",
    # activations and normalisation
    "Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax", "Mish", "PRelu", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu", "BatchNormalization",
    "LayerNormalization",
    # linear algebra and reductions
    "Gemm", "MatMul", "ArgMax", "ArgMin", "CumSum", *REDUCTIONS,
    # shapes: as many numbers as came in, or as there are indices
    "Cast", "Concat", "Constant", "Flatten", "Gather", "GatherElements", "Identity", "Reshape", "Shape", "Squeeze",
    "Transpose", "Unsqueeze",
    # models and their preparation of rows
    EXTRACTOR, ML + "Binarizer", ML + "Imputer", ML + "LabelEncoder", LINEAR_CLASSIFIER, LINEAR_REGRESSOR,
    ML + "Normalizer", ML + "OneHotEncoder", ML + "Scaler", *TREES, ML + "ZipMap",
))  # fmt: skip # FeatureVectorizer is left out: it aborts the process where its inputs have other shapes than it says

DIVISIONS = frozenset(("Div", "Mod"))  # of integers: by 0, and -2**63 by -1, they end the process (SIGFPE)
GIVES_INTEGERS = frozenset(("ArgMax", "ArgMin", "Shape", ML + "LabelEncoder", LINEAR_CLASSIFIER, TREE_CLASSIFIER))
INTEGERS = frozenset((2, 3, 4, 5, 6, 7, 12, 13, 21, 22, 25, 26))  # data types of tensors
SHAPED_BY = {"Reshape": 1, "Squeeze": 1, "Unsqueeze": 1, **dict.fromkeys(REDUCTIONS, 1)}  # operator: which input
KEEPS_SHAPE = frozenset((
    "Cast", "Clip", "Identity", ML + "Binarizer", ML + "Imputer", ML + "Normalizer", ML + "Scaler",
))  # fmt: skip
KEEPS_SHAPE_WITH_CONSTANT = frozenset(("Add", "Div", "Mul", "Sub"))
LONGEST_WAY = 100  # of steps from the rows to a linear model


@dataclass(frozen=True, eq=False)
class Step:
    """A node of the graph, but for trees."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]  # numbers and texts; no tensors, no graphs


@dataclass(frozen=True)
class FixedTensor:
    """A tensor that stands in the graph and has a name."""

    shape: tuple[int, ...]
    least: int | None = None  # of its numbers, if they are int64 and there are any


@dataclass(frozen=True)
class GraphInput:
    """What the graph takes."""

    data_type: int
    shape: tuple[int, ...]  # 0: any


@dataclass(eq=False)
class Flow:
    """How the outermost graph goes from its inputs to its outputs."""

    steps: list[Step] = field(default_factory=list)
    inputs: dict[str, GraphInput] = field(default_factory=dict)
    fixed: dict[str, FixedTensor] = field(default_factory=dict)  # initializers
    data_types: set[int] = field(default_factory=set)  # of all tensors in the file

    @cached_property
    def made_by(self) -> dict[str, Step]:
        """The step that gives a tensor, by the tensor's name."""
        return {name: step for step in self.steps for name in step.outputs}

    def is_fixed(self, name: str) -> bool:
        """Whether a tensor stands in the file: no row changes it."""
        step = self.made_by.get(name)
        return step.operator == "Constant" if step is not None else name in self.fixed

    def has_integers(self) -> bool:
        """Whether any tensor may be of integers, but for those of operators that give such anyhow."""
        return (
            bool(self.data_types & INTEGERS)
            or any(each.data_type in INTEGERS for each in self.inputs.values())
            or any(_gives_integers(step) for step in self.steps)
        )

    def find_width(self, name: str, way: int = 0) -> int | None:
        """How many columns a table has, if that follows from the graph's inputs; None if not."""
        step = self.made_by.get(name)
        if step is None:
            shape = self.inputs[name].shape if name in self.inputs and name not in self.fixed else ()
            return shape[1] if len(shape) == 2 and shape[1] > 0 else None
        if way > LONGEST_WAY or not step.inputs or name != step.outputs[0]:
            return None
        if step.operator in KEEPS_SHAPE:
            return self.find_width(step.inputs[0], way + 1)
        if step.operator in KEEPS_SHAPE_WITH_CONSTANT:
            constants = [each for each in step.inputs if each in self.fixed and each not in self.made_by]
            others = [each for each in step.inputs if each not in constants]
            width = self.find_width(others[0], way + 1) if len(others) == len(constants) == 1 else None
            return width if width is not None and _is_row(self.fixed[constants[0]].shape, width) else None
        if step.operator == "Concat" and step.attributes.get("axis") == 1:  # of the graph's inputs, a column each
            made = [None if each in self.made_by else self.find_width(each) for each in step.inputs]
            return None if None in made else sum(each for each in made if each)
        return None


def describe_hazard(graph: "OnnxGraph") -> str:
    """Why the graph must not run inside a node, to follow "it"; empty if it may."""
    flow = [name for name in CONTROL_FLOW if name in graph.operators]
    others = sorted(graph.operators - IN_PROCESS)
    if graph.external_data:
        return "keeps some of its tensors in other files"
    if flow:
        return f"has graphs within its graph ({', '.join(flow)})"
    if graph.functions:
        return "defines functions of its own"
    if graph.sparse:
        return "holds sparse tensors"
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        return f"uses operators that are not known to be harmless: {', '.join(map(_short, others[:3]))}{more}"
    if graph.operators & DIVISIONS and (graph.operators & GIVES_INTEGERS or graph.flow.has_integers()):
        return "may divide integers, which ends the process for some of them"
    if not all(map(is_harmless_forest, graph.trees)):
        return "has trees that are not well-formed: circles, or nodes, features or outputs that there are not"
    unsure = [step.operator for step in graph.flow.steps if not _is_sure(step, graph.flow)]
    return f"has a step whose memory depends on the rows: {unsure[0].removeprefix(ML)}" if unsure else ""


def _is_sure(step: Step, flow: Flow) -> bool:
    """Whether the file alone decides which memory the step reads and writes, or else onnxruntime looks."""
    if step.operator in SHAPED_BY:  # values that make shapes make sizes, by broadcasting
        place = SHAPED_BY[step.operator]
        return all(flow.is_fixed(name) for name in step.inputs[place:] if name)
    if step.operator == EXTRACTOR:  # older versions of onnxruntime do not look for negative indices
        return len(step.inputs) == 2 and _is_index(step.inputs[1], flow)
    if step.operator in (LINEAR_CLASSIFIER, LINEAR_REGRESSOR):  # nor do they count coefficients and labels
        width = flow.find_width(step.inputs[0]) if step.inputs else None
        return width is not None and _fits_width(step, width)
    return True


def _is_index(name: str, flow: Flow) -> bool:
    step = flow.made_by.get(name)
    if step is not None:
        return step.operator in ("ArgMax", "ArgMin")
    least = flow.fixed[name].least if name in flow.fixed else None
    return least is not None and least >= 0


def _fits_width(step: Step, width: int) -> bool:
    """Whether a linear model has as many coefficients and labels as it uses."""
    held = step.attributes
    count = {name: len(each) for name, each in held.items() if not isinstance(each, int)}
    outputs = held.get("targets", 1)
    if step.operator == LINEAR_CLASSIFIER:
        labels = count.get("classlabels_strings", 0) or count.get("classlabels_ints", 0)
        outputs = count.get("intercepts", 0)
        if labels != outputs and (outputs, labels) != (1, 2):
            return False
    return isinstance(outputs, int) and outputs >= 1 and count.get("coefficients", 0) == outputs * width


def _gives_integers(step: Step) -> bool:
    held = step.attributes
    if step.operator == "Cast":
        to = held.get("to")
        return not isinstance(to, int) or to in INTEGERS
    return step.operator == "Constant" and ("value_int" in held or "value_ints" in held)


def _is_row(shape: tuple[int, ...], width: int) -> bool:
    """Whether an operand of this shape leaves the shape of a table of this width as it is."""
    return len(shape) <= 2 and all(size == 1 for size in shape[:-1]) and all(size in (1, width) for size in shape[-1:])


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}…"
