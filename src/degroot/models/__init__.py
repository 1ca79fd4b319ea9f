"""Models from files and addresses: something with ``predict(X)``, and its version."""

from degroot.models.entry import model_source
from degroot.models.remote import RemoteModel
from degroot.models.source import ModelSource, check_features, load, open_transformer

__all__ = ["ModelSource", "RemoteModel", "check_features", "load", "model_source", "open_transformer"]
