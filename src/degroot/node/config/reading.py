"""From the TOML file to what a node is told, checked once."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from degroot.consultation.settings import check_settings
from degroot.exceptions import InvalidInput
from degroot.files import DataSource, data_source
from degroot.files.addresses import LAST_PORT, is_this_machine, split
from degroot.files.source import PEERS
from degroot.files.toml import Table
from degroot.maps.settings import check_rows
from degroot.maps.settings import check_settings as check_map_settings
from degroot.models import ModelSource, model_source
from degroot.neighbourhoods.codes import KERNELS, METRICS
from degroot.node.config.entries import (
    ANSWER_DAYS,
    ASK,
    CLIENT_RIGHTS,
    CLIENT_ROWS_PER_DAY,
    DEFAULT_FIELDS,
    GRANTS,
    LOOPBACK,
    MAPS,
    OPINION,
    OWN,
    PEER_ROWS_PER_DAY,
    POOLED,
    QUERY,
    RIGHTS,
    USES,
    Client,
    Configuration,
    Disclosure,
    IdentityFiles,
    LedgerSettings,
    Limits,
    MapTerms,
    MetricsAddress,
    NodeSettings,
    Page,
    Peer,
    Timing,
)
from degroot.node.config.names import check_name
from degroot.rules.names import RULE_NAMES

MAX_SECONDS, MAX_DAYS = 86_400, 36_500
MAX_VALUES = {  # of settings that have no other limit: what is beyond is a slip, or more than timers and counters take
    "requests_per_second": 10**9, "rows_per_second": 10**9, "concurrent_calls": 100_000, "copy_bytes": 2**31 - 1,
    "copy_memory_bytes": 2**44, "days": MAX_DAYS, "records": 10**12,
}  # fmt: skip
MESSAGE_BYTES = (1_000_000, 2**31 - 1)  # a part of a copied model at least; no message can be longer

Measures = TypeVar("Measures", Limits, Timing, LedgerSettings)
Result = TypeVar("Result")
KEYS = (
    "name", "listen", "state", "evidence", "quorum", "identity", "model", "data", "collective", "disclosure", "maps",
    "peers", "clients", "limits", "timing", "ledger", "metrics", "page",
)  # fmt: skip
REMOVED = {
    "queries": "is no setting any more; remove the line. A node scores all peers' models on all of its rows: that is "
    'what its own view takes. To send rows to nobody, have peers grant may = ["copy"] and set use = ["copy"] for them.'
}


def read(path: Path) -> Configuration:
    """The configuration in the file; whatever is wrong with it is one line. Other files need not be there yet."""
    table = Table.read(path, (*KEYS, *REMOVED))
    for key in REMOVED.keys() & table.entries.keys():
        raise InvalidInput(f"{path}: `{key}` {REMOVED[key]}")
    evidence = table.given("evidence", lambda key: table.choice(key, (OWN, MAPS, POOLED)), OWN)
    peers = tuple(_peer(entry, evidence) for entry in table.tables("peers", _keys(Peer)))
    limits = _limits(_or_empty(table, "limits", Limits))
    configuration = Configuration(
        path=path,
        name=_name(table),
        listen=_address(table, "listen"),
        state=table.file("state"),
        evidence=evidence,
        quorum=_of_pooled(table, "quorum", evidence, lambda key: table.whole(key, 1, 1 + len(peers)), None, MAPS),
        identity=table.given("identity", lambda key: _identity(table.table(key, _keys(IdentityFiles))), None),
        model=model_source(table.table("model", _keys(ModelSource))),
        data=data_source(table.table("data", _keys(DataSource))),
        collective=_settings(_or_empty(table, "collective", NodeSettings)),
        peers=peers,
        clients=tuple(_client(entry) for entry in table.tables("clients", _keys(Client))),
        limits=limits,
        timing=_timing(_or_empty(table, "timing", Timing), limits),
        records=_measured(_or_empty(table, "ledger", LedgerSettings), LedgerSettings()),
        metrics=table.given("metrics", lambda key: _metrics(table.table(key, _keys(MetricsAddress))), None),
        page=table.given("page", lambda key: _page(table.table(key, _keys(Page))), None),
        maps=_read_maps(table, evidence),
        disclosure=_of_pooled(table, "disclosure", evidence, lambda key: _disclosure(table, key), Disclosure()),
    )
    _check_own_predictions(table, configuration)
    _check_map_members(configuration)
    _check_roster(configuration)
    _check_ports(configuration)
    return configuration


def _keys(made: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(made))


def _or_empty(table: Table, key: str, made: type[Any]) -> Table:
    return table.given(key, lambda key: table.table(key, _keys(made)), Table({}, table.path, key))


def _name(table: Table) -> str:
    return check_name(table.text("name"), table.what("name"))


def _address(table: Table, key: str) -> str:
    address = table.text(key)
    split(address, table.what(key))
    return address


def _identity(table: Table) -> IdentityFiles:
    roster = table.given("roster", table.file, None)
    return IdentityFiles(table.file("ca"), table.file("certificate"), table.file("key"), roster)


def _of_pooled(
    table: Table, key: str, evidence: str, read: Callable[[str], Result], default: Result, *also: str
) -> Result:
    """A setting that means something only where evidence is pooled, or is one of those given."""
    if key in table.entries and evidence not in (POOLED, *also):
        raise InvalidInput(
            f"{table.what(key)} must come with evidence = {POOLED!r}, which lets members recover labels; here it is "
            f"{evidence!r}. Remove it: a node's own view needs no other node's evidence."
        )
    return table.given(key, read, default)


def _read_maps(table: Table, evidence: str) -> MapTerms | None:
    """What a node declares of its maps, which it has to where its evidence is maps."""
    if evidence != MAPS:
        if "maps" in table.entries:
            raise InvalidInput(f"{table.what('maps')} must come with evidence = {MAPS!r}; here it is {evidence!r}.")
        return None
    told = table.table("maps", _keys(MapTerms))
    needed = {key: told.number(key) for key in ("residual_bound", "epsilon", "lifetime_epsilon")}
    given: dict[str, Any] = {key: told.number(key) for key in ("delta", "lifetime_delta") if key in told.entries}
    given |= {key: told.whole(key, int(key != "seed")) for key in ("seed", "trees", "depth") if key in told.entries}
    terms = MapTerms(
        _ranges(told),
        needed["residual_bound"],
        told.whole("rows"),
        needed["epsilon"],
        needed["lifetime_epsilon"],
        **given,
    )
    if terms.epsilon > terms.lifetime_epsilon:
        raise told.refusal("lifetime_epsilon", f"be at least `epsilon`, {terms.epsilon:g}")
    if terms.delta > terms.lifetime_delta:
        raise InvalidInput(
            f"{told.what('delta')} must be at most `lifetime_delta`, {terms.lifetime_delta:g}; got {terms.delta:g}."
        )
    try:
        settings = terms.to_settings(pair for _, pair in terms.ranges)
        check_map_settings(settings)
        check_rows(settings)
    except InvalidInput as error:
        raise InvalidInput(f"{table.path}: [maps]: {error}") from error
    return terms


def _ranges(table: Table) -> tuple[tuple[str, tuple[float, float]], ...]:
    """The least and the largest value of each feature, by name; of features without names, a list in their order."""
    told = table.entries.get("ranges")
    pairs = told if isinstance(told, dict) else dict(enumerate(told)) if isinstance(told, list) else {}
    if not pairs or not all(_is_range(pair) for pair in pairs.values()):
        raise table.refusal("ranges", "have the least and the largest value of each feature, such as {x = [0.0, 1.0]}")
    return tuple((str(name), (float(low), float(high))) for name, (low, high) in pairs.items())


def _is_range(pair: Any) -> bool:
    is_pair = isinstance(pair, list) and len(pair) == 2
    return is_pair and all(isinstance(each, int | float) and not isinstance(each, bool) for each in pair)


def _disclosure(table: Table, key: str) -> Disclosure:
    told = table.table(key, _keys(Disclosure))
    return Disclosure(told.given("least_rows", told.whole, Disclosure().least_rows))


def _settings(table: Table) -> NodeSettings:
    default = NodeSettings()
    rule = table.given("rule", lambda key: _rule(table, key), default.rule)
    guard = table.given("guard", table.flag, default.guard)
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
            f"{table.what(key)} must be one of {', '.join(map(repr, RULE_NAMES))}; got 'auto', which tries rules on "
            "labels that never leave their nodes: not over the network."
        )
    return table.choice(key, RULE_NAMES)


def _peer(table: Table, evidence: str) -> Peer:
    may = _texts(table, "may", RIGHTS, (QUERY,) if evidence == OWN else (QUERY, OPINION))
    if OPINION in may and evidence == OWN:
        raise InvalidInput(
            f"{table.what('may')} must not have {OPINION!r} where evidence is {evidence!r}; got it. Remove it, or set "
            f"evidence = {POOLED!r}, which lets members recover labels."
        )
    name, address, fields = _name(table), _address(table, "address"), _fields(table, may)
    return Peer(name, address, may, fields, _uses(table), _budget(table, PEER_ROWS_PER_DAY))


def _client(table: Table) -> Client:
    may = _texts(table, "may", CLIENT_RIGHTS, (ASK,))
    return Client(_name(table), may, _fields(table, may), _budget(table, CLIENT_ROWS_PER_DAY))


def _fields(table: Table, may: frozenset[str]) -> frozenset[str]:
    if "fields" in table.entries and ASK not in may:
        raise InvalidInput(f"{table.what('fields')} must come with the right {ASK!r} in `may`; it is missing.")
    return _texts(table, "fields", GRANTS, DEFAULT_FIELDS)


def _uses(table: Table) -> frozenset[str]:
    uses = _texts(table, "use", USES, USES)
    if not uses:
        raise table.refusal("use", f"be at least one of {', '.join(map(repr, USES))}")
    return uses


def _budget(table: Table, default: int) -> int:
    return table.given("rows_per_day", table.whole, default)


def _metrics(table: Table) -> MetricsAddress:
    address = MetricsAddress(table.whole("port", 1, LAST_PORT), _host(table))
    try:
        split(address.text)
    except InvalidInput as error:
        raise table.refusal("host", "be an IP address, or a name, of this machine") from error
    return address


def _host(table: Table) -> str:
    return table.given("host", table.text, LOOPBACK).strip("[]")


def _page(table: Table) -> Page:
    host = _host(table)
    if not is_this_machine(host):
        raise table.refusal("host", "be an address of this machine only (127.0.0.0/8, ::1 or localhost)")
    days = table.given("answer_days", lambda key: table.number(key, zero=True), ANSWER_DAYS)
    if days > MAX_DAYS:
        raise table.refusal("answer_days", f"be at most {MAX_DAYS}")
    return Page(table.whole("port", 1, LAST_PORT), host, days)


def _texts(table: Table, key: str, known: tuple[str, ...], default: tuple[str, ...]) -> frozenset[str]:
    return frozenset(table.given(key, lambda key: table.texts(key, known), default))


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
    for key, value in given.items():
        most = MAX_SECONDS if key.endswith("_seconds") else MAX_VALUES.get(key)
        if most is not None and value > most:
            raise table.refusal(key, f"be at most {most}")
    return replace(default, **given)


def _check_own_predictions(table: Table, configuration: Configuration) -> None:
    """What peers measure of a model is pooled evidence: without it they cannot stand in."""
    if configuration.data.own_predictions == PEERS and not configuration.pooled:
        raise InvalidInput(
            f"{table.path}: `data.own_predictions` must be a column where evidence is {configuration.evidence!r}; got "
            f"{PEERS!r}, whose measurements are pooled evidence."
        )


def _check_map_members(configuration: Configuration) -> None:
    """A map scores two models of others or more."""
    peers = len(configuration.peers)
    if configuration.evidence == MAPS and peers < 2:
        raise InvalidInput(
            f"{configuration.path}: Evidence maps need at least 3 members, since nobody's map has its own model; this "
            f"node has {peers} {'peer' if peers == 1 else 'peers'}."
        )


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
    taken = {"listen": split(configuration.listen)[1]}
    if configuration.metrics is not None:
        taken["metrics.port"] = configuration.metrics.port
    for what, port in taken.items():
        if configuration.page is not None and port == configuration.page.port:
            raise InvalidInput(
                f"{configuration.path}: `page.port` must be another port than that of `{what}`; got {port} for both."
            )
