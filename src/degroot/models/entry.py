"""Where a model is, as a table of a TOML file says."""

from degroot.addresses import split
from degroot.exceptions import InvalidInput
from degroot.models.source import ModelSource
from degroot.tomlfile import Table

SCHEME = "grpc://"


def model_source(table: Table) -> ModelSource:
    """A file, or a model that is served at an address."""
    if ("file" in table.entries) == ("address" in table.entries):
        came = "got both" if "file" in table.entries else "both are missing"
        raise InvalidInput(f"{table.path}: either `model.file` or `model.address` must be given; {came}.")
    if "file" in table.entries:
        for key in table.entries:
            if key != "file":
                raise InvalidInput(f"{table.what(key)} must stand beside `model.address`; got it beside `model.file`.")
        return ModelSource(file=table.file("file"))
    return _served(table)


def _served(table: Table) -> ModelSource:
    """A model at an address, over TLS if the CA of the server is given."""
    for key, other in (("certificate", "key"), ("key", "certificate"), ("certificate", "ca")):
        if key in table.entries and other not in table.entries:
            raise InvalidInput(f"{table.what(key)} must come with {table.where(other)}; it is missing.")
    address = table.text("address")
    if not address.startswith(SCHEME):
        raise table.refusal("address", f'be "{SCHEME}host:port"')
    split(address.removeprefix(SCHEME), table.what("address"))
    return ModelSource(
        address=address.removeprefix(SCHEME),
        name=table.text("name"),
        version=table.given("version", table.text, None),
        ca=table.given("ca", table.file, None),
        certificate=table.given("certificate", table.file, None),
        key=table.given("key", table.file, None),
    )
