"""A torch module through ONNX answers as the module does."""

from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from degroot import Agent, Collective, InvalidInput, load_model
from degroot.models import from_torch

MISSING = [package for package in ("torch", "onnxscript") if find_spec(package) is None]
pytestmark = [
    pytest.mark.slow,  # the exporter takes its time, and so does importing torch
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (pip install torch onnxscript)"),
]

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(80, 4))
Y = X[:, 0] - X[:, 1]


@pytest.fixture
def torch():
    import torch

    return torch


def network(torch, outputs, *last):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(16),
        torch.nn.Linear(16, outputs), *last,
    )  # fmt: skip


def doing(torch, forward):
    """A module of its own, with this forward pass."""
    return type("Own", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def said(torch, module, rows):
    module.eval()
    kind = next((part.dtype for part in module.parameters()), torch.float32)
    with torch.no_grad():
        return module(torch.tensor(rows, dtype=kind)).numpy()


MODULES = {
    "one output": lambda torch: network(torch, 1),
    "three outputs": lambda torch: network(torch, 3),
    "double": lambda torch: network(torch, 2).double(),
    "flat": lambda torch: doing(torch, lambda x: x[:, 0] * 2 + x[:, 3]),
}


@pytest.mark.parametrize("kind", MODULES)
def test_a_module_answers_alike_for_any_number_of_rows(torch, kind):
    module = MODULES[kind](torch)
    module.train()
    model = from_torch(module, n_features=4)
    assert module.training, "it is left as it was"
    for count in (1, 2, 80):
        expected = said(torch, module, X[:count])
        expected = expected[:, 0] if expected.shape[1:] == (1,) else expected
        assert_allclose(model.predict(X[:count]), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(InvalidInput, match="takes 4 features"):
        model.predict(X[:, :3])


def test_a_collective_of_modules_is_saved_and_their_files_are_models(torch, tmp_path):
    labels = np.array(["low", "top"])[(Y > 0).astype(int)]
    module = network(torch, 2, torch.nn.Softmax(dim=1))
    model = from_torch(module, 4)
    agents = [Agent(model, X, labels, name, classes=["low", "top"]) for name in ("north", "south")]
    collective = Collective(agents, neighbours=5)
    assert_allclose(collective.predict(X), said(torch, module, X), atol=1e-5)
    assert_array_equal(Collective.load(collective.save(tmp_path / "saved")).predict(X), collective.predict(X))
    (tmp_path / "model.onnx").write_bytes(model.content)
    assert_array_equal(load_model(tmp_path / "model.onnx").predict(X), model.predict(X))


def test_what_is_no_such_module_is_refused_in_one_line(torch):
    for module, n_features, words in [
        (doing(torch, lambda x: x.sum()), 4, "must give"),
        (doing(torch, lambda x: x if bool(x[0].sum() > 9) else -x), 4, "torch can export"),
        (network(torch, 1), 5, "must take rows of 5 features; RuntimeError: .*5"),
        (doing(torch, lambda x: (x - x.mean(0)).sum(1)), 4, "must answer a row alone as among others"),
        (network(torch, 1), 0, "at least 1"),
        (lambda x: x, 4, "must be a torch module; got a function"),
    ]:
        with pytest.raises(InvalidInput, match=words) as caught:
            from_torch(module, n_features)
        assert "\n" not in str(caught.value)
