"""From the TOML file to what a node is told, checked once."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from degroot.consultation.settings import check_settings
from degroot.exceptions import InvalidInput
from degroot.files import DataSource, data_source
from degroot.files.addresses import LAST_PORT, is_this_machine, split
from degroot.files.toml import Table
from degroot.models import ModelSource, model_source
from degroot.neighbourhoods import KERNELS, METRICS
from degroot.node.config.entries import (
    ASK,
    CALIBRATE,
    CLIENT_RIGHTS,
    ON_DEMAND,
    RIGHTS,
    Client,
    Configuration,
    IdentityFiles,
    Limits,
    NodeSettings,
    Page,
    Peer,
    Timing,
)
from degroot.node.config.names import check_name
from degroot.rules.rules import RULES

MESSAGE_BYTES = (65_536, 2**31 - 1)  # a few rows at least; no message can be longer

Measures = TypeVar("Measures", Limits, Timing)
KEYS = (
    "name", "listen", "state", "quorum", "queries", "identity", "model", "data", "collective", "peers", "clients",
    "limits", "timing", "metrics", "page",
)  # fmt: skip


def read(path: Path) -> Configuration:
    """The configuration in the file; whatever is wrong with it is one line. Other files need not be there yet."""
    table = Table.read(path, KEYS)
    queries = table.given("queries", lambda key: table.choice(key, (CALIBRATE, ON_DEMAND)), CALIBRATE)
    peers = tuple(_peer(entry) for entry in table.tables("peers", _keys(Peer)))
    metrics = table.given("metrics", lambda key: table.table(key, ("port",)), None)
    limits = _limits(_or_empty(table, "limits", Limits))
    configuration = Configuration(
        path=path,
        name=_name(table),
        listen=_address(table, "listen", first_port=0),
        state=table.file("state"),
        quorum=table.given("quorum", lambda key: table.whole(key, 1, 1 + len(peers)), None),
        queries=queries,
        identity=table.given("identity", lambda key: _identity(table.table(key, _keys(IdentityFiles))), None),
        model=model_source(table.table("model", _keys(ModelSource))),
        data=data_source(table.table("data", _keys(DataSource))),
        collective=_settings(_or_empty(table, "collective", NodeSettings), queries),
        peers=peers,
        clients=tuple(_client(entry) for entry in table.tables("clients", _keys(Client))),
        limits=limits,
        timing=_timing(_or_empty(table, "timing", Timing), limits),
        metrics_port=None if metrics is None else metrics.whole("port", 0, LAST_PORT),
        page=table.given("page", lambda key: _page(table.table(key, _keys(Page))), None),
    )
    _check_roster(configuration)
    _check_ports(configuration)
    return configuration


def _keys(made: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(made))


def _or_empty(table: Table, key: str, made: type[Any]) -> Table:
    return table.given(key, lambda key: table.table(key, _keys(made)), Table({}, table.path, key))


def _name(table: Table) -> str:
    return check_name(table.text("name"), table.what("name"))


def _address(table: Table, key: str, first_port: int = 1) -> str:
    address = table.text(key)
    split(address, table.what(key), first_port)
    return address


def _identity(table: Table) -> IdentityFiles:
    return IdentityFiles(table.file("ca"), table.file("certificate"), table.file("key"))


def _settings(table: Table, queries: str) -> NodeSettings:
    default = NodeSettings()
    rule = table.given("rule", lambda key: _rule(table, key), default.rule)
    guard = table.given("guard", table.flag, queries != ON_DEMAND)
    if guard and queries == ON_DEMAND:
        raise InvalidInput(
            f"{table.what('guard')} must be false where `queries` is {ON_DEMAND!r}: the guard needs all rows scored."
        )
    neighbours = table.entries.get("neighbours")
    metric = table.given("metric", lambda key: table.choice(key, METRICS), default.metric)
    try:
        check_settings(neighbours, metric, None)
    except InvalidInput as error:
        raise InvalidInput(f"{table.path}: `collective.{str(error).removeprefix('`')}") from error
    kernel = table.given("kernel", lambda key: table.choice(key, KERNELS), None)
    ridge = table.given("ridge", lambda key: table.number(key, zero=True), None)
    return NodeSettings(rule, neighbours, metric, kernel, ridge, guard)


def _rule(table: Table, key: str) -> str:
    if table.entries[key] == "auto":
        raise InvalidInput(
            f"{table.what(key)} must be one of {', '.join(map(repr, RULES))}; got 'auto', which tries rules on "
            "labels that never leave their nodes: not over the network."
        )
    return table.choice(key, RULES)


def _peer(table: Table) -> Peer:
    return Peer(_name(table), _address(table, "address"), _may(table, RIGHTS, RIGHTS))


def _client(table: Table) -> Client:
    return Client(_name(table), _may(table, CLIENT_RIGHTS, (ASK,)))


def _page(table: Table) -> Page:
    host = table.given("host", table.text, "127.0.0.1").strip("[]")
    if not is_this_machine(host):
        raise table.refusal("host", "be an address of this machine only (127.0.0.0/8, ::1 or localhost)")
    return Page(table.whole("port", 1, LAST_PORT), host)


def _may(table: Table, known: tuple[str, ...], default: tuple[str, ...]) -> frozenset[str]:
    return frozenset(table.given("may", lambda key: table.texts(key, known), default))


def _limits(table: Table) -> Limits:
    if "message_bytes" in table.entries:
        table.whole("message_bytes", *MESSAGE_BYTES)
    limits = _measured(table, Limits())
    most = max(1, int(limits.rows_per_second))  # a request with more rows would never be let through
    rows = _at_most(table, "rows_per_request", limits.rows_per_request, most, "limits.rows_per_second")
    return replace(limits, rows_per_request=rows)


def _timing(table: Table, limits: Limits) -> Timing:
    timing, most = _measured(table, Timing()), limits.rows_per_request  # peers are taken to have the same limits
    return replace(timing, chunk_rows=_at_most(table, "chunk_rows", timing.chunk_rows, most, "limits.rows_per_request"))


def _at_most(table: Table, key: str, value: int, most: int, other: str) -> int:
    """The value, if it is not above that of another setting; where nobody has said it, it is lowered to that."""
    if key in table.entries and value > most:
        raise table.refusal(key, f"be at most `{other}`, {most}")
    return min(value, most)


def _measured(table: Table, default: Measures) -> Measures:
    """`default` with what the table says: whole numbers where it has whole ones, positive ones elsewhere."""
    whole = {key for key in table.entries if isinstance(getattr(default, key), int)}
    given: dict[str, Any] = {key: table.whole(key) if key in whole else table.number(key) for key in table.entries}
    return replace(default, **given)


def _check_roster(configuration: Configuration) -> None:
    """Everybody has a name of their own, and every peer an address of its own."""
    peers, clients = configuration.peers, configuration.clients
    names = [configuration.name, *(peer.name for peer in peers), *(client.name for client in clients)]
    addresses = [configuration.listen, *(peer.address for peer in peers)]
    for what, values in (("names", names), ("addresses", addresses)):
        for value in values:
            if values.count(value) > 1:
                raise InvalidInput(
                    f"{configuration.path}: the {what} of this node, its peers and clients must differ; "
                    f"got {value!r} twice."
                )


def _check_ports(configuration: Configuration) -> None:
    """The page has a port to itself."""
    taken = {"listen": split(configuration.listen, first_port=0)[1], "metrics.port": configuration.metrics_port}
    for what, port in taken.items():
        if configuration.page is not None and port == configuration.page.port:
            raise InvalidInput(
                f"{configuration.path}: `page.port` must be another port than that of `{what}`; got {port} for both."
            )
