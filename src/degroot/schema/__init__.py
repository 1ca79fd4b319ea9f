"""Schemas: what the columns of tables are, tables as numbers by it, and the space of mixed tables.
Imports files, compute and exceptions only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.schema.columns import BOOLEAN, CATEGORY, DATE, KINDS, NUMBER, ORDERED, Column, SiteColumn
    from degroot.schema.frames import FrameForm, encode_frame, infer_form, is_mixed
    from degroot.schema.schema import Schema, merge_schemas, read_schema, schema_from_text
    from degroot.schema.sites import AS_SHARED, Site, read_site
    from degroot.schema.space import SchemaSpace

__all__ = [
    "AS_SHARED",
    "BOOLEAN",
    "CATEGORY",
    "DATE",
    "KINDS",
    "NUMBER",
    "ORDERED",
    "Column",
    "FrameForm",
    "Schema",
    "SchemaSpace",
    "Site",
    "SiteColumn",
    "encode_frame",
    "infer_form",
    "is_mixed",
    "merge_schemas",
    "read_schema",
    "read_site",
    "schema_from_text",
]

HOMES = {
    "columns": ("BOOLEAN", "CATEGORY", "DATE", "KINDS", "NUMBER", "ORDERED", "Column", "SiteColumn"),
    "frames": ("FrameForm", "encode_frame", "infer_form", "is_mixed"),
    "schema": ("Schema", "merge_schemas", "read_schema", "schema_from_text"),
    "sites": ("AS_SHARED", "Site", "read_site"),
    "space": ("SchemaSpace",),
}  # where each name comes from


def __getattr__(name: str) -> Any:
    """A name, imported on first use: a schema takes neither frames nor distances."""
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"degroot.schema.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
