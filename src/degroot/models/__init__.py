"""Models from files and addresses: something with ``predict(X)``, and its version.
Imports schema, files, compute and exceptions only."""

from degroot.models.by_schema import bind_schema
from degroot.models.features import check_features
from degroot.models.inference_client import RemoteModel
from degroot.models.loading import is_address, load_model, locate_model
from degroot.models.source import ModelSource, is_still, load, model_source, open_transformer
from degroot.models.torch import from_torch

__all__ = [
    "ModelSource",
    "RemoteModel",
    "bind_schema",
    "check_features",
    "from_torch",
    "is_address",
    "is_still",
    "load",
    "load_model",
    "locate_model",
    "model_source",
    "open_transformer",
]
