"""What can go wrong, as a tree.

::

    DeGrootError                 whatever this package raises on purpose
    ├── InvalidInput             data or settings do not meet a requirement (also a ValueError)
    │   ├── AgentError           one agent's rows, labels or model are at fault
    │   ├── DataMissing          a data set of the paper is not at hand (in `degroot.paper.data.datasets`)
    │   ├── TooFewRows           the noisy table of an evidence map counts too few (in `degroot.maps.settings`)
    │   ├── UnansweredRow        all models abstain at a row (in `degroot.consultation.abstention`)
    │   ├── UnansweredInput      all models abstain at a row of a file (in `degroot.batch.task`)
    │   ├── NotAdmitted          the schema does not admit what was typed (in `degroot.node.page.fields`)
    │   ├── Malformed            a message does not say what it has to (in `degroot.node.protocol.codec`)
    │   └── UnknownVersion       a message is of another version of the protocol (in `degroot.node.protocol.codec`)
    ├── SandboxError             a model's own process failed (in `degroot.models.sandbox`)
    │   └── SandboxLimitExceeded it took more time or memory than was allowed
    ├── CopyError                a copy of a peer's model cannot be used (in `degroot.node.copies.copy`)
    ├── NotPooled                the consensus is asked for where evidence stays at home (in `degroot.node.answering`)
    ├── PeerError                a peer gave nothing that can be used; its tree is in `degroot.node.errors`
    ├── BudgetSpent              a new version of an evidence map would cost too much (in `degroot.maps.budget`)
    ├── TooFew                   fewer nodes can answer than the quorum (in `degroot.node.peers.membership`)
    ├── Lost                     nodes fell silent while they pooled (in `degroot.node.pooling.session`)
    ├── Exceeded                 more came than a limit allows (in `degroot.node.server.access`)
    ├── LedgerError              an exchange cannot be recorded (in `degroot.node.records.ledger`)
    ├── StorageError             a node's state cannot be written (in `degroot.node.scoring.residual_store`)
    └── DamagedFile              a file is not as it was written (in `degroot.files.checksums`)

A message is one line: the requirement, then what came instead.

Warnings are of a class of their own where somebody may want to ignore one kind: `HardLabelsWarning`
and `NumberedLabelsWarning`, `UnlistedWarning`.
"""


class DeGrootError(Exception):
    """Whatever this package raises on purpose.

    Examples
    --------
    >>> from degroot import Collective
    >>> try:
    ...     Collective([])
    ... except DeGrootError as error:
    ...     print(error)
    A collective must have at least one agent; it has none.
    """


class InvalidInput(DeGrootError, ValueError):
    """Data or settings do not meet a requirement.

    Examples
    --------
    >>> from degroot import Collective
    >>> Collective([], neighbours=0)
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: `neighbours` must be at least 1 when it is a whole number; got 0.
    >>> issubclass(InvalidInput, ValueError)
    True
    """

    def __str__(self) -> str:
        return " ".join(super().__str__().split())  # one line, whatever was quoted in it


class AgentError(InvalidInput):
    """One agent's rows, labels or model are at fault.

    Examples
    --------
    >>> raise AgentError("north", "`y` must be finite; row 3 is nan.")
    Traceback (most recent call last):
    degroot.exceptions.AgentError: Agent 'north': `y` must be finite; row 3 is nan.
    """

    def __init__(self, agent: str, message: str) -> None:
        super().__init__(agent, message)  # both stay in `args`, from which pickle builds the error again
        self.agent = agent
        self.message = message

    def __str__(self) -> str:
        return f"Agent {self.agent!r}: {' '.join(self.message.split())}"


class UnlistedWarning(UserWarning):
    """A frame has categories that the schema does not list: they are taken as gaps."""


class HardLabelsWarning(UserWarning):
    """A classifier gives labels without probabilities: they count as 1 and 0, which are averaged.

    Examples
    --------
    >>> import warnings
    >>> from degroot import Agent
    >>> vet = Agent(lambda X: ["cat"] * len(X), [[0.0]], ["cat"], "vet", classes=["cat", "dog"])
    >>> with warnings.catch_warnings(action="ignore", category=HardLabelsWarning):  # where that is what you want
    ...     vet.predict(vet.X)
    array([[1., 0.]])
    """

    def __init__(self, agent: str, model: str) -> None:
        super().__init__(agent, model)  # both stay in `args`, from which pickle builds the warning again
        self.agent = agent
        self.model = model

    def __str__(self) -> str:
        return (
            f"Agent {self.agent!r}: its model, a {self.model}, gives labels without probabilities, which are averaged "
            "as 1 and 0; give it predict_proba, such as by scikit-learn's CalibratedClassifierCV."
        )


class NumberedLabelsWarning(HardLabelsWarning):
    """A classifier predicts a number: its labels are averaged as numbers.

    Examples
    --------
    >>> str(NumberedLabelsWarning("north", "RidgeClassifier")).partition(";")[0]
    "Agent 'north': its model, a RidgeClassifier, is a classifier, and its labels are averaged as numbers"
    """

    def __str__(self) -> str:
        return (
            f"Agent {self.agent!r}: its model, a {self.model}, is a classifier, and its labels are averaged as "
            "numbers; for probabilities of classes give the agent `classes`, or use DeGrootClassifier."
        )


def describe_error(error: BaseException) -> str:
    """What an error says, after its name."""
    return f"{type(error).__name__}: {error}".rstrip(".: ")
