from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Tensor(_message.Message):
    __slots__ = ("shape", "data")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("protocol", "schema", "roster", "instance")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    schema: bool
    roster: int
    instance: str
    def __init__(self, protocol: _Optional[int] = ..., schema: bool = ..., roster: _Optional[int] = ..., instance: _Optional[str] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("rule", "neighbours", "metric", "kernel", "ridge", "guard")
    RULE_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    RIDGE_FIELD_NUMBER: _ClassVar[int]
    GUARD_FIELD_NUMBER: _ClassVar[int]
    rule: str
    neighbours: str
    metric: str
    kernel: str
    ridge: str
    guard: bool
    def __init__(self, rule: _Optional[str] = ..., neighbours: _Optional[str] = ..., metric: _Optional[str] = ..., kernel: _Optional[str] = ..., ridge: _Optional[str] = ..., guard: bool = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Description(_message.Message):
    __slots__ = ("protocol", "name", "model_version", "settings", "n_features", "feature_names", "outputs", "classes", "scored_by_peers", "scored", "members", "no_view", "pooled", "fields", "offers_copy", "takes_copy", "held_copy", "reaches_caller", "map", "map_grid", "schema_digest", "schema", "optional_columns", "takes_gaps", "roster", "signed_roster", "instance", "duplicate", "software")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    N_FEATURES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_NAMES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    SCORED_BY_PEERS_FIELD_NUMBER: _ClassVar[int]
    SCORED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NO_VIEW_FIELD_NUMBER: _ClassVar[int]
    POOLED_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    OFFERS_COPY_FIELD_NUMBER: _ClassVar[int]
    TAKES_COPY_FIELD_NUMBER: _ClassVar[int]
    HELD_COPY_FIELD_NUMBER: _ClassVar[int]
    REACHES_CALLER_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    MAP_GRID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TAKES_GAPS_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    SIGNED_ROSTER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    name: str
    model_version: str
    settings: Settings
    n_features: int
    feature_names: _containers.RepeatedScalarFieldContainer[str]
    outputs: int
    classes: _containers.RepeatedScalarFieldContainer[str]
    scored_by_peers: bool
    scored: _containers.RepeatedCompositeFieldContainer[Model]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    no_view: str
    pooled: bool
    fields: _containers.RepeatedScalarFieldContainer[str]
    offers_copy: bool
    takes_copy: bool
    held_copy: str
    reaches_caller: bool
    map: str
    map_grid: str
    schema_digest: str
    schema: str
    optional_columns: _containers.RepeatedScalarFieldContainer[str]
    takes_gaps: bool
    roster: int
    signed_roster: bytes
    instance: str
    duplicate: str
    software: str
    def __init__(self, protocol: _Optional[int] = ..., name: _Optional[str] = ..., model_version: _Optional[str] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., n_features: _Optional[int] = ..., feature_names: _Optional[_Iterable[str]] = ..., outputs: _Optional[int] = ..., classes: _Optional[_Iterable[str]] = ..., scored_by_peers: bool = ..., scored: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., no_view: _Optional[str] = ..., pooled: bool = ..., fields: _Optional[_Iterable[str]] = ..., offers_copy: bool = ..., takes_copy: bool = ..., held_copy: _Optional[str] = ..., reaches_caller: bool = ..., map: _Optional[str] = ..., map_grid: _Optional[str] = ..., schema_digest: _Optional[str] = ..., schema: _Optional[str] = ..., optional_columns: _Optional[_Iterable[str]] = ..., takes_gaps: bool = ..., roster: _Optional[int] = ..., signed_roster: _Optional[bytes] = ..., instance: _Optional[str] = ..., duplicate: _Optional[str] = ..., software: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "state", "reason", "progress")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    reason: str
    progress: float
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., progress: _Optional[float] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("question", "asker", "purpose", "salt")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ASKER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    question: str
    asker: str
    purpose: str
    salt: bytes
    def __init__(self, question: _Optional[str] = ..., asker: _Optional[str] = ..., purpose: _Optional[str] = ..., salt: _Optional[bytes] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("protocol", "id", "points", "origin", "schema_digest")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    id: int
    points: Tensor
    origin: Origin
    schema_digest: str
    def __init__(self, protocol: _Optional[int] = ..., id: _Optional[int] = ..., points: _Optional[_Union[Tensor, _Mapping]] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., schema_digest: _Optional[str] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ("id", "fault", "model_version", "predictions")
    ID_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    id: int
    fault: str
    model_version: str
    predictions: Tensor
    def __init__(self, id: _Optional[int] = ..., fault: _Optional[str] = ..., model_version: _Optional[str] = ..., predictions: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class FetchCopyRequest(_message.Message):
    __slots__ = ("protocol", "origin")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    origin: Origin
    def __init__(self, protocol: _Optional[int] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ...) -> None: ...

class CopyChunk(_message.Message):
    __slots__ = ("protocol", "content", "origin")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    content: bytes
    origin: Origin
    def __init__(self, protocol: _Optional[int] = ..., content: _Optional[bytes] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ...) -> None: ...

class CopyReceipt(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...

class Bundle(_message.Message):
    __slots__ = ("manifest", "content", "signature", "certificate")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    content: bytes
    signature: bytes
    certificate: bytes
    def __init__(self, manifest: _Optional[bytes] = ..., content: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("owner", "recipient", "version", "issued", "suffix", "digest", "size", "labels", "n_features", "feature_names", "outputs", "classes", "schema_digest", "optional_columns", "takes_gaps")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    N_FEATURES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_NAMES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TAKES_GAPS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    recipient: str
    version: str
    issued: float
    suffix: str
    digest: bytes
    size: int
    labels: str
    n_features: int
    feature_names: _containers.RepeatedScalarFieldContainer[str]
    outputs: int
    classes: _containers.RepeatedScalarFieldContainer[str]
    schema_digest: str
    optional_columns: _containers.RepeatedScalarFieldContainer[str]
    takes_gaps: bool
    def __init__(self, owner: _Optional[str] = ..., recipient: _Optional[str] = ..., version: _Optional[str] = ..., issued: _Optional[float] = ..., suffix: _Optional[str] = ..., digest: _Optional[bytes] = ..., size: _Optional[int] = ..., labels: _Optional[str] = ..., n_features: _Optional[int] = ..., feature_names: _Optional[_Iterable[str]] = ..., outputs: _Optional[int] = ..., classes: _Optional[_Iterable[str]] = ..., schema_digest: _Optional[str] = ..., optional_columns: _Optional[_Iterable[str]] = ..., takes_gaps: bool = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("protocol", "id", "points", "spread", "guard", "origin", "schema_digest")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    GUARD_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    id: int
    points: Tensor
    spread: bool
    guard: bool
    origin: Origin
    schema_digest: str
    def __init__(self, protocol: _Optional[int] = ..., id: _Optional[int] = ..., points: _Optional[_Union[Tensor, _Mapping]] = ..., spread: bool = ..., guard: bool = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., schema_digest: _Optional[str] = ...) -> None: ...

class OpinionReply(_message.Message):
    __slots__ = ("id", "fault", "model_version", "beliefs", "scored", "errors", "moments", "spread", "effective", "expectation")
    ID_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    BELIEFS_FIELD_NUMBER: _ClassVar[int]
    SCORED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    EXPECTATION_FIELD_NUMBER: _ClassVar[int]
    id: int
    fault: str
    model_version: str
    beliefs: Tensor
    scored: _containers.RepeatedCompositeFieldContainer[Model]
    errors: Tensor
    moments: Tensor
    spread: Tensor
    effective: Tensor
    expectation: Expectation
    def __init__(self, id: _Optional[int] = ..., fault: _Optional[str] = ..., model_version: _Optional[str] = ..., beliefs: _Optional[_Union[Tensor, _Mapping]] = ..., scored: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., errors: _Optional[_Union[Tensor, _Mapping]] = ..., moments: _Optional[_Union[Tensor, _Mapping]] = ..., spread: _Optional[_Union[Tensor, _Mapping]] = ..., effective: _Optional[_Union[Tensor, _Mapping]] = ..., expectation: _Optional[_Union[Expectation, _Mapping]] = ...) -> None: ...

class Expectation(_message.Message):
    __slots__ = ("answers", "tolerance", "errors", "spread", "reach", "low", "high")
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    answers: Tensor
    tolerance: Tensor
    errors: Tensor
    spread: Tensor
    reach: float
    low: Tensor
    high: Tensor
    def __init__(self, answers: _Optional[_Union[Tensor, _Mapping]] = ..., tolerance: _Optional[_Union[Tensor, _Mapping]] = ..., errors: _Optional[_Union[Tensor, _Mapping]] = ..., spread: _Optional[_Union[Tensor, _Mapping]] = ..., reach: _Optional[float] = ..., low: _Optional[_Union[Tensor, _Mapping]] = ..., high: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class PoolMessage(_message.Message):
    __slots__ = ("begin", "bounds", "join", "beliefs")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    BELIEFS_FIELD_NUMBER: _ClassVar[int]
    begin: Begin
    bounds: Bounds
    join: Join
    beliefs: Beliefs
    def __init__(self, begin: _Optional[_Union[Begin, _Mapping]] = ..., bounds: _Optional[_Union[Bounds, _Mapping]] = ..., join: _Optional[_Union[Join, _Mapping]] = ..., beliefs: _Optional[_Union[Beliefs, _Mapping]] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ("protocol", "session", "members", "points", "guard", "tolerance", "rounds", "origin", "schema_digest")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    GUARD_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    session: str
    members: _containers.RepeatedScalarFieldContainer[str]
    points: Tensor
    guard: bool
    tolerance: float
    rounds: int
    origin: Origin
    schema_digest: str
    def __init__(self, protocol: _Optional[int] = ..., session: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., points: _Optional[_Union[Tensor, _Mapping]] = ..., guard: bool = ..., tolerance: _Optional[float] = ..., rounds: _Optional[int] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., schema_digest: _Optional[str] = ...) -> None: ...

class Bounds(_message.Message):
    __slots__ = ("kept", "low", "high", "own")
    KEPT_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    kept: Tensor
    low: Tensor
    high: Tensor
    own: Tensor
    def __init__(self, kept: _Optional[_Union[Tensor, _Mapping]] = ..., low: _Optional[_Union[Tensor, _Mapping]] = ..., high: _Optional[_Union[Tensor, _Mapping]] = ..., own: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("protocol", "session")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    session: str
    def __init__(self, protocol: _Optional[int] = ..., session: _Optional[str] = ...) -> None: ...

class Beliefs(_message.Message):
    __slots__ = ("round", "beliefs", "share", "settled")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    BELIEFS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    round: int
    beliefs: Tensor
    share: Tensor
    settled: Tensor
    def __init__(self, round: _Optional[int] = ..., beliefs: _Optional[_Union[Tensor, _Mapping]] = ..., share: _Optional[_Union[Tensor, _Mapping]] = ..., settled: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class PoolReply(_message.Message):
    __slots__ = ("ready", "outcome")
    READY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ready: Ready
    outcome: Outcome
    def __init__(self, ready: _Optional[_Union[Ready, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("fault", "model_version", "scored", "beliefs", "expectation")
    FAULT_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCORED_FIELD_NUMBER: _ClassVar[int]
    BELIEFS_FIELD_NUMBER: _ClassVar[int]
    EXPECTATION_FIELD_NUMBER: _ClassVar[int]
    fault: str
    model_version: str
    scored: _containers.RepeatedCompositeFieldContainer[Model]
    beliefs: Tensor
    expectation: Expectation
    def __init__(self, fault: _Optional[str] = ..., model_version: _Optional[str] = ..., scored: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., beliefs: _Optional[_Union[Tensor, _Mapping]] = ..., expectation: _Optional[_Union[Expectation, _Mapping]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("weight", "lost")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    weight: Tensor
    lost: _containers.RepeatedCompositeFieldContainer[Loss]
    def __init__(self, weight: _Optional[_Union[Tensor, _Mapping]] = ..., lost: _Optional[_Iterable[_Union[Loss, _Mapping]]] = ...) -> None: ...

class Loss(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ConsultRequest(_message.Message):
    __slots__ = ("protocol", "points", "feature_names", "fields", "way", "tolerance", "rounds", "coverage", "view", "correct", "asker", "purpose", "question", "schema_digest", "absent")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_NAMES_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    WAY_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    ASKER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    points: Tensor
    feature_names: _containers.RepeatedScalarFieldContainer[str]
    fields: _containers.RepeatedScalarFieldContainer[str]
    way: str
    tolerance: float
    rounds: int
    coverage: float
    view: str
    correct: bool
    asker: str
    purpose: str
    question: str
    schema_digest: str
    absent: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, protocol: _Optional[int] = ..., points: _Optional[_Union[Tensor, _Mapping]] = ..., feature_names: _Optional[_Iterable[str]] = ..., fields: _Optional[_Iterable[str]] = ..., way: _Optional[str] = ..., tolerance: _Optional[float] = ..., rounds: _Optional[int] = ..., coverage: _Optional[float] = ..., view: _Optional[str] = ..., correct: bool = ..., asker: _Optional[str] = ..., purpose: _Optional[str] = ..., question: _Optional[str] = ..., schema_digest: _Optional[str] = ..., absent: _Optional[_Iterable[str]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("names", "fields", "flags", "rounds", "outputs", "asker", "choice")
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Tensor
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...
    NAMES_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ASKER_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    fields: _containers.MessageMap[str, Tensor]
    flags: _containers.RepeatedCompositeFieldContainer[Flag]
    rounds: int
    outputs: int
    asker: str
    choice: Mixture
    def __init__(self, names: _Optional[_Iterable[str]] = ..., fields: _Optional[_Mapping[str, Tensor]] = ..., flags: _Optional[_Iterable[_Union[Flag, _Mapping]]] = ..., rounds: _Optional[int] = ..., outputs: _Optional[int] = ..., asker: _Optional[str] = ..., choice: _Optional[_Union[Mixture, _Mapping]] = ...) -> None: ...

class Mixture(_message.Message):
    __slots__ = ("candidates", "shares", "errors", "differences", "standard_errors", "rows", "folds")
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    STANDARD_ERRORS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FOLDS_FIELD_NUMBER: _ClassVar[int]
    candidates: _containers.RepeatedScalarFieldContainer[str]
    shares: Tensor
    errors: Tensor
    differences: Tensor
    standard_errors: Tensor
    rows: int
    folds: int
    def __init__(self, candidates: _Optional[_Iterable[str]] = ..., shares: _Optional[_Union[Tensor, _Mapping]] = ..., errors: _Optional[_Union[Tensor, _Mapping]] = ..., differences: _Optional[_Union[Tensor, _Mapping]] = ..., standard_errors: _Optional[_Union[Tensor, _Mapping]] = ..., rows: _Optional[int] = ..., folds: _Optional[int] = ...) -> None: ...

class Flag(_message.Message):
    __slots__ = ("agent", "reason", "points")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    reason: str
    points: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, agent: _Optional[str] = ..., reason: _Optional[str] = ..., points: _Optional[_Iterable[int]] = ...) -> None: ...

class Signed(_message.Message):
    __slots__ = ("protocol", "content", "signature", "certificate")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    content: bytes
    signature: bytes
    certificate: bytes
    def __init__(self, protocol: _Optional[int] = ..., content: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class ChainHead(_message.Message):
    __slots__ = ("number", "hash")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    number: int
    hash: bytes
    def __init__(self, number: _Optional[int] = ..., hash: _Optional[bytes] = ...) -> None: ...

class Statement(_message.Message):
    __slots__ = ("caller", "callee", "at", "digests", "head")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CALLEE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    caller: str
    callee: str
    at: float
    digests: bytes
    head: ChainHead
    def __init__(self, caller: _Optional[str] = ..., callee: _Optional[str] = ..., at: _Optional[float] = ..., digests: _Optional[bytes] = ..., head: _Optional[_Union[ChainHead, _Mapping]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("statement", "at", "unknown", "head", "known", "unclaimed")
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    UNCLAIMED_FIELD_NUMBER: _ClassVar[int]
    statement: bytes
    at: float
    unknown: _containers.RepeatedScalarFieldContainer[int]
    head: ChainHead
    known: Signed
    unclaimed: _containers.RepeatedCompositeFieldContainer[Unclaimed]
    def __init__(self, statement: _Optional[bytes] = ..., at: _Optional[float] = ..., unknown: _Optional[_Iterable[int]] = ..., head: _Optional[_Union[ChainHead, _Mapping]] = ..., known: _Optional[_Union[Signed, _Mapping]] = ..., unclaimed: _Optional[_Iterable[_Union[Unclaimed, _Mapping]]] = ...) -> None: ...

class Unclaimed(_message.Message):
    __slots__ = ("question", "kind", "rows", "at")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    question: str
    kind: str
    rows: int
    at: float
    def __init__(self, question: _Optional[str] = ..., kind: _Optional[str] = ..., rows: _Optional[int] = ..., at: _Optional[float] = ...) -> None: ...
