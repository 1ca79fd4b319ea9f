"""A collective as an MLflow model: logged, registered, loaded, served.

The folder that MLflow keeps holds what `Collective.save` writes: rows, labels and models of all agents, and no pickle.
Whoever may read it may see them all.
"""

import platform
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from degroot.agents.agent import Agent
from degroot.collective import Collective
from degroot.exceptions import InvalidInput
from degroot.files.atomic import is_free
from degroot.models.formats import first_line
from degroot.schema import BOOLEAN, CATEGORY, DATE, NUMBER, ORDERED

NEEDED = "A collective in MLflow needs extra packages: pip install 'degroot[mlflow]'"
FLAVOUR = "degroot"
FOLDER = "collective"
PINNED = ("numpy", "scikit-learn", "skops", "onnxruntime")  # with which the models were saved
TYPES = {NUMBER: "double", CATEGORY: "string", ORDERED: "string", BOOLEAN: "boolean", DATE: "datetime"}  # of MLflow
CONVERTED = {  # types of pandas that MLflow takes as these
    NUMBER: {"", "float32", "float64"}, BOOLEAN: {"", "bool", "boolean"}, CATEGORY: {"object", "str", "string"},
    ORDERED: set[str](), DATE: {"", *(f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns"))},
}  # fmt: skip
BOOSTERS = {"lightgbm": "lightgbm", "xgboost": "xgboost-cpu"}  # modules, and what brings them


def log_model(collective: Collective, name: str = FOLDER, **about: Any) -> Any:
    """Log a collective as a model of the active run, or of a new one.

    Parameters
    ----------
    collective : Collective
    name : str
        What the run calls it.
    about
        As MLflow takes it: ``registered_model_name``, ``input_example``, ``metadata``, ``tags``, ….

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` leads to it.

    Examples
    --------
    With a store at hand (MLflow's own code warns, so that a test of this file cannot run it; the page on models does):

    >>> info = log_model(collective, "prices", registered_model_name="prices")  # doctest: +SKIP
    >>> load_model("models:/prices/1").predict(X)  # doctest: +SKIP
    """
    from degroot import mlflow as flavour

    model = _mlflow("mlflow.models").Model
    return model.log(artifact_path=None, name=name, flavor=flavour, collective=collective, **about)


def save_model(
    collective: Collective,
    path: str | Path,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
    pip_requirements: list[str] | None = None,
) -> None:
    """Put a collective into a new folder, as an MLflow model. Its signature is made of its features and outputs.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.linear_model import Ridge
    >>> from degroot import Agent
    >>> rows, folder = np.arange(12.0)[:, None], tempfile.mkdtemp()
    >>> agents = [Agent(Ridge().fit(rows, k * rows[:, 0]), rows, rows[:, 0], f"agent {k}") for k in (1, 2)]
    >>> save_model(Collective(agents), f"{folder}/prices")
    >>> load_model(f"{folder}/prices").names
    ('agent 1', 'agent 2')
    """
    models, pyfunc = _mlflow("mlflow.models"), _mlflow("mlflow.pyfunc")
    if not isinstance(collective, Collective):
        raise InvalidInput(f"The model must be a Collective; got a {type(collective).__name__}.")
    folder = Path(path)
    if not is_free(folder):
        raise InvalidInput(f"An MLflow model must go to a new folder; {folder} is there already.")
    collective.save(folder / FOLDER)
    model = models.Model() if mlflow_model is None else mlflow_model
    model.signature = signature_of(collective) if signature is None else signature
    if metadata is not None:
        model.metadata = metadata
    if input_example is not None:
        with warnings.catch_warnings(action="ignore"):  # MLflow and pandas differ on what is old
            _mlflow("mlflow.models.utils")._save_example(model, input_example, str(folder))
    needed = requirements(collective) if pip_requirements is None else pip_requirements
    pyfunc.add_to_model(model, loader_module=__name__, data=FOLDER, **_environment(folder, needed))
    model.add_flavor(FLAVOUR, data=FOLDER, degroot_version=version("degroot"))
    model.save(str(folder / "MLmodel"))


def load_model(model_uri: str, dst_path: str | Path | None = None, **options: Any) -> Collective:
    """The collective at ``models:/…``, ``runs:/…``, or in a folder. What `save` wrote is mapped, so it has to stay.

    `dst_path` is where a copy goes, if MLflow has to fetch it; `options` are those of `Collective.load`. `save_model`
    and `log_model` have examples.

    Examples
    --------
    >>> load_model(".")
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: The MLflow model must be a collective, with a folder 'collective'; . has none.
    """
    download = _mlflow("mlflow.artifacts").download_artifacts
    if Path(model_uri).is_dir():
        return _opened(Path(model_uri), **options)
    try:
        found = download(artifact_uri=str(model_uri), dst_path=None if dst_path is None else str(dst_path))
    except Exception as error:
        raise InvalidInput(f"The collective must be one that MLflow has; {model_uri}: {first_line(error)}.") from error
    return _opened(Path(found), **options)


def signature_of(collective: Collective) -> Any:
    """What goes in, a column for each feature, what comes out, and what else may be asked for.

    By a schema a column may be missing.
    """
    models, types = _mlflow("mlflow.models"), _mlflow("mlflow.types")
    schema = _mlflow("mlflow.types.schema")
    width, outputs = collective.agents[0].n_features, collective.outputs
    names = collective.feature_names or [f"x{k}" for k in range(width)]
    shape, is_required = (-1,) if outputs is None else (-1, outputs), collective.schema is None
    return models.ModelSignature(
        inputs=types.Schema([
            types.ColSpec(_find_type(collective, place, name) or schema.AnyType(), name, required=is_required)
            for place, name in enumerate(names)
        ]),
        outputs=types.Schema([types.TensorSpec(np.dtype(np.float64), shape)]),
        params=schema.ParamSchema([
            schema.ParamSpec("fields", "string", default=[], shape=(-1,)),
            schema.ParamSpec("coverage", "double", default=None),
            schema.ParamSpec("asker", "string", default=None),
        ]),
    )  # fmt: skip


def _find_type(collective: Collective, place: int, name: str) -> str | None:
    """What MLflow calls the values of a feature; None where it would refuse the frames that agents have.

    MLflow converts no categories of pandas, no long integers to floating point and no dates with a time zone.
    """
    kind = NUMBER if collective.schema is None else collective.schema.column(name).kind
    types = {_name_dtype(agent, place, name) for agent in collective.agents}
    return TYPES[kind] if types <= CONVERTED[kind] else None


def _name_dtype(agent: Agent, place: int, name: str) -> str:
    """The type of a feature's values in an agent's rows; empty where the schema alone says what they are."""
    if agent.schema is not None:
        columns = () if agent.form is None else agent.form.columns
        return next((each.dtype for each in columns if each.name == name), "")
    return str(agent.X.dtypes.iloc[place] if hasattr(agent.X, "iloc") else agent.X.dtype)


def requirements(collective: Collective) -> list[str]:
    """The packages with which it can be opened again, in the versions that are here."""
    models = [getattr(agent.model, "model", agent.model) for agent in collective.agents]
    used = {type(model).__module__.partition(".")[0] for model in models}
    used |= {word for model in models for word in BOOSTERS if word in type(model).__name__.lower()}
    libraries = {agent.form.library for agent in collective.agents if agent.form is not None}
    packages = [*PINNED, *sorted(libraries), *(package for module, package in BOOSTERS.items() if module in used)]
    here = [package for package in packages if _version(package) is not None]
    return [f"degroot[mlflow]=={version('degroot')}", *(f"{package}=={_version(package)}" for package in here)]


class Answers:
    """What MLflow asks: ``predict(frame)``."""

    def __init__(self, collective: Collective) -> None:
        self.collective = collective

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """The prediction, for an ``asker`` its view; or a frame with the fields and interval that `params` asks for."""
        asked = params or {}
        fields, coverage, asker = list(asked.get("fields") or ()), asked.get("coverage"), asked.get("asker")
        if not fields and coverage is None:
            return self.collective.predict(model_input, asker)
        if coverage is not None and asker is None and not self.collective.is_calibrated:
            self.collective.calibrate()
        return self.collective.consult(model_input, fields or ("value",), coverage=coverage, asker=asker).to_frame()


def _load_pyfunc(path: str) -> Answers:
    """What MLflow calls to open the model."""
    return Answers(Collective.load(path))


def _opened(folder: Path, **options: Any) -> Collective:
    if not (folder / FOLDER).is_dir():
        raise InvalidInput(f"The MLflow model must be a collective, with a folder {FOLDER!r}; {folder} has none.")
    return Collective.load(folder / FOLDER, **options)


def _environment(folder: Path, needed: list[str]) -> dict[str, Any]:
    """What MLflow has to install to serve the model elsewhere, as files."""
    from yaml import safe_dump

    python, pip = platform.python_version(), ["pip"]
    conda = {"name": "mlflow-env", "channels": ["conda-forge"]}
    files = {
        "requirements.txt": "".join(f"{each}\n" for each in needed),
        "python_env.yaml": safe_dump(
            {"python": python, "build_dependencies": pip, "dependencies": ["-r requirements.txt"]}
        ),
        "conda.yaml": safe_dump(conda | {"dependencies": [f"python={python}", *pip, {"pip": needed}]}),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {"conda_env": "conda.yaml", "python_env": "python_env.yaml"}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _mlflow(module: str) -> Any:
    """A module of MLflow, which has something to say when it is imported."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return import_module(module)
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
