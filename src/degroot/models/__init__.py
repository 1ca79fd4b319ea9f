"""Models from files and addresses: something with ``predict(X)``, and its version.
Imports schema, files, compute and exceptions only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.models.by_schema import bind_schema
    from degroot.models.features import check_features
    from degroot.models.inference_client import RemoteModel
    from degroot.models.loading import is_address, load_model, locate_model
    from degroot.models.opening import is_still, load, open_transformer
    from degroot.models.source import ModelSource, model_source
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

HOMES = {
    "by_schema": ("bind_schema",),
    "features": ("check_features",),
    "inference_client": ("RemoteModel",),
    "loading": ("is_address", "load_model", "locate_model"),
    "opening": ("is_still", "load", "open_transformer"),
    "source": ("ModelSource", "model_source"),
    "torch": ("from_torch",),
}  # where each name comes from


def __getattr__(name: str) -> Any:
    """A name, imported on first use: whoever only names a model opens none."""
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"degroot.models.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
