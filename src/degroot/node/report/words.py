"""Words of the report: what each mode, right, use and kind of exchange means, for readers who know no machine learning.

A new mode is an entry of `MODES`; a new kind of exchange one of `FLOWS` for each direction.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from degroot.node.config import ASK, COPY, MAPS, OPINION, OWN, POOLED, QUERY, Peer
from degroot.node.peers.link import COPIED, DESCRIBE, MAP, POOL, PREDICTION, PUSHED
from degroot.node.records.chain import IN, OUT
from degroot.node.records.departures import CONSULT, REHEARSAL
from degroot.node.records.receipts import RECEIPT
from degroot.node.server.access import UNANSWERED
from degroot.node.server.health_service import HEALTH
from degroot.node.server.model_service import ABOUT, MODEL_QUERY


@dataclass(frozen=True, slots=True)
class Mode:
    """What an evidence mode means."""

    name: str
    meaning: str
    leaves: str  # with it, beside what the rights of peers and clients allow
    outcomes: str  # whether they stay at home
    risk: str  # what was measured, as benchmarks/LEAKS.md has it


QUERIED = (
    "Where a member's model is queried, the features of this node's rows, without outcomes, go to that member once for "
    "each version of its model, and so does every row that is asked about. Where a copy of the model is held here, "
    "neither does."
)
MODES = {
    OWN: Mode(
        OWN,
        "Outcomes (labels) and errors stay in this organisation. The node answers from its own view: it weighs the "
        "models of all members by how they do on its own rows.",
        QUERIED,
        "yes: outcomes and errors are in no message between nodes",
        "In the measured attacks a member recovered 0 of 91 outcomes exactly, and no estimate was better than the "
        "models that it may query anyway. Whoever may ask learns more: from 10,000 questions with value and interval, "
        "by a client that knows the features, R² 0.85 over the model's predictions; none exactly, 2 of 91 within 0.5.",
    ),
    POOLED: Mode(
        POOLED,
        "This organisation has agreed to pool its evidence: at every question for the consensus it tells the asking "
        "node, as exact averages, how well all models do on its rows near the asked point.",
        "Besides what leaves where models are queried: every row that is asked about goes to all members, and exact "
        "averages of errors come back from each.",
        "no: members can recover them from what leaves",
        "Members can recover outcomes (labels) from these averages: in the measured attack 91 of 91, exactly.",
    ),
    MAPS: Mode(
        MAPS,
        "This organisation publishes a table of how well all models do in parts of the feature space, with random "
        "noise that hides single rows. Outcomes (labels) and errors of single rows stay here.",
        "The noisy table, an evidence map, goes to peers with the right to it, once for each version of models and "
        f"rows. {QUERIED}",
        "yes, but for what a noisy table tells of them",
        "How much all published tables together can tell of a single row is bounded by the node's privacy budget for "
        "life (epsilon, delta).",
    ),
}  # fmt: skip


SEE = "See the documentation of the mode."


def find_mode(evidence: str) -> Mode:
    """What an evidence mode means; of one that has no words here, that."""
    unknown = f"The mode {evidence}, which this report has no words for."
    return MODES.get(evidence, Mode(evidence, unknown, SEE, "not known", SEE))


RIGHT_WORDS = {
    QUERY: "have predictions of this node's model for rows that it sends",
    COPY: "hold a copy of this node's model",
    OPINION: "have this node's pooled evidence, from which outcomes can be recovered",  # or what `EVIDENCE_WORDS` has
    ASK: "ask this node for answers, which are made with its outcomes",
}
EVIDENCE_WORDS = {MAPS: "have this node's evidence map: sums of errors with noise"}  # for the right to it, by mode
FIELD_WORDS = {
    "value": "the answer",
    "interval": "its prediction interval",
    "weights": "the weight of every model and its errors on this node's rows",
    "beliefs": "the prediction of every model",
    "trust": "how every member weighs all models",
    "standard_error": "how far apart the models are",
}
COPY_OR_NOTHING = "only as a copy that is held here: no row of this node is sent there to use it"
QUERIES_ONLY = "only by queries: the features of this node's rows, and rows that are asked about, are sent there"
COPY_OR_QUERIES = (
    "as a copy where the owner offers one; otherwise by queries, which send the features of this node's rows, and rows "
    "that are asked about, there"
)


def describe_rights(may: Iterable[str], evidence: str) -> list[str]:
    """What a peer or client may do at a node with this mode of evidence, in words."""
    granted = set(may)
    known = RIGHT_WORDS | {OPINION: EVIDENCE_WORDS.get(evidence, RIGHT_WORDS[OPINION])}
    return [words for right, words in known.items() if right in granted] + sorted(granted - set(known))


def describe_fields(fields: Iterable[str]) -> list[str]:
    """What of answers a peer or client may see, in words."""
    granted = set(fields)
    return [words for field, words in FIELD_WORDS.items() if field in granted] + sorted(granted - set(FIELD_WORDS))


def describe_use(peer: Peer) -> str:
    """How this node uses a peer's model, and what that sends."""
    if QUERY not in peer.use:
        return COPY_OR_NOTHING
    return COPY_OR_QUERIES if COPY in peer.use else QUERIES_ONLY


CONTENT, SERVICE, INSIDE = "content", "service", "inside"


@dataclass(frozen=True, slots=True)
class FlowWords:
    """What an exchange of some kind, in one direction, is."""

    left: str
    why: str
    came: str
    group: str = CONTENT


THEIR_MODEL = "its model, as a signed file"
ASKED_ROWS_LEFT, SENT_ROWS = "rows that were asked about, without outcomes", "rows that the caller sent"
EVIDENCE = "pooled evidence: predictions and exact averages of errors near the asked rows"
ROUNDS = (
    "predictions, what is expected of every model, and shares of weight at the asked rows; every round counts its rows"
)
ROUNDS_SENT = "rows that were asked about, where this node was asked; predictions and shares of weight in every round"
PREDICTIONS = "predictions of our model"
NAMES = "names, versions and settings"
HASHES = "hashes and signatures of the record"
FLOWS = {
    (OPINION, IN): FlowWords(EVIDENCE, "the caller was asked for the consensus", ASKED_ROWS_LEFT),
    (REHEARSAL, IN): FlowWords(EVIDENCE, "the caller calibrated its intervals", SENT_ROWS),
    (POOL, IN): FlowWords(ROUNDS, "to pool evidence in rounds", "rows that were asked about, and rounds"),
    (POOL, OUT): FlowWords(ROUNDS_SENT, "to pool evidence in rounds", "predictions, and how the pooling ended"),
    (MAP, IN): FlowWords(
        "our evidence map: sums of errors with noise", "for the consensus", "a request for our evidence map"
    ),
    (MAP, OUT): FlowWords("a request for its evidence map", "for the consensus", "its evidence map", SERVICE),
    (UNANSWERED, IN): FlowWords("nothing", "the request was refused, or could not be answered", SENT_ROWS),
    (CONSULT, IN): FlowWords("answers of this node", "the receiver asked this node", SENT_ROWS),
    (COPIED, IN): FlowWords("our model, as a signed file", "the receiver may hold a copy", "a request for our model"),
    (PUSHED, OUT): FlowWords("our model, as a signed file", "the receiver may hold a copy", "a confirmation"),
    (MODEL_QUERY, OUT): FlowWords(
        "features of our rows, without outcomes", "to score the receiver's model on them", "predictions of its model"
    ),
    (REHEARSAL, OUT): FlowWords("features of our rows, without outcomes", "to calibrate intervals", EVIDENCE),
    (PREDICTION, OUT): FlowWords(ASKED_ROWS_LEFT, "for predictions of the receiver's model", "its predictions"),
    (OPINION, OUT): FlowWords(ASKED_ROWS_LEFT, "for the consensus", EVIDENCE),
    (MODEL_QUERY, IN): FlowWords(PREDICTIONS, "the receiver scored our model on its rows", SENT_ROWS),
    (PREDICTION, IN): FlowWords(PREDICTIONS, "the receiver was asked a question", ASKED_ROWS_LEFT),
    (COPIED, OUT): FlowWords("a request", "to fetch a copy of its model", THEIR_MODEL, SERVICE),
    (PUSHED, IN): FlowWords("a confirmation", "it gave us its model", THEIR_MODEL, SERVICE),
    (DESCRIBE, IN): FlowWords(NAMES, "so that nodes know each other", NAMES, SERVICE),
    (DESCRIBE, OUT): FlowWords("a request", "so that nodes know each other", NAMES, SERVICE),
    (ABOUT, IN): FlowWords(NAMES, "to describe our model", "a request", SERVICE),
    (ABOUT, OUT): FlowWords("a request", "to have its model described", NAMES, SERVICE),
    (HEALTH, IN): FlowWords("whether this node can answer", "the receiver watches this node", "a request", SERVICE),
    (RECEIPT, IN): FlowWords(HASHES, "so that both sides can prove what was exchanged", HASHES, SERVICE),
    (RECEIPT, OUT): FlowWords(HASHES, "so that both sides can prove what was exchanged", HASHES, SERVICE),
}  # fmt: skip


def find_flow(kind: str, direction: str) -> FlowWords:
    """What an exchange is; of a kind that has no words here, its name."""
    unknown = f"messages of another kind ({kind})"
    return FLOWS.get((kind, direction), FlowWords(unknown, "not known to this version", unknown))


# of questions, by the numbers that `QUESTIONS` of facts.py gives them
ROLES = (
    "asked at this node",
    "another member's work with this node's model",
    "asked at another member, which asked this node for its part",
    "by this node, of other members",
)

RECEIVERS_KEEP = (
    "A member that is sent features or asked rows uses them to compute predictions, in memory. This software writes "
    "none of them to a disk: what stays is the record of the exchange, with counts, times, the names of asker and "
    "caller, the purpose and a hash that is made with a random number which nobody keeps.",
    "A member that is asked for an answer, and has a page, holds a sample of the rows that it was asked about in "
    "memory: at most 64 of one question and 5,000 in all, until newer ones come or its node is stopped.",
    "A member that was given a copy of this node's model keeps it as a file, until a newer version comes or somebody "
    "deletes it there. A right that is withdrawn stops further versions; it does not take the copy back.",
    "A member that was given this node's evidence map keeps it as a file, until a newer version comes or this node is "
    "taken out of its roster while it runs. What a map has told cannot be taken back: its cost stays spent.",
    "Whoever asks gets answers, and keeps them as they please.",
    "This is what the software does. No technical means keeps a member from running other software that stores what "
    "it is sent; that takes an agreement between the organisations.",
)
NOT_SHOWN = (
    "Contents. The ledger has counts, names and times, never rows, outcomes or answers; so it cannot say which persons "
    "an exchange was about. A row that was sent twice counts twice.",
    "What a person has copied out of this organisation by other means, such as files of answers or backups.",
    "What receivers have done with what they were sent, and whether their software is the one described here.",
    "What was refused: refusals are in the node's log and metrics.",
    "The newest heartbeats: messages in which nodes only ask each other who they are, what their models are called, "
    "and for receipts, are counted in memory and recorded every 15 minutes and when the node is stopped.",
    "Whether a purpose is true: it is what the asker has typed. The asker of a question that was put to another "
    "member is as that member tells it; the names of those who call this node are those of their certificates.",
    "Rights that were granted before and have been withdrawn since: the rights are those of the configuration as the "
    "file is now; a running node may not have taken in all of it.",
    "A change of the record by somebody with this node's key and disk, unless a member's receipts contradict it; they "
    "can be compared with a member's export of its record.",
)


@dataclass(frozen=True, slots=True)
class Risk:
    """Something that could become known, and what was measured of it, as benchmarks/LEAKS.md has it."""

    what: str
    measured: str


RISKS = (
    Risk(
        "outcomes become known to whoever may ask this node",
        "A client that knows the features and asks 10,000 questions with value and interval: R² 0.85 over the model's "
        "predictions, none exactly, 2 of 91 within 0.5. There may be better attacks.",
    ),
    Risk(
        "the least and the largest outcome become known to whoever may ask for intervals",
        "12 questions far from all rows, up to round numbers.",
    ),
    Risk(
        "it becomes known that a person is among the rows, to whoever may ask",
        "Area under the curve 0.944 ± 0.020 with values, 0.977 ± 0.015 with intervals too, by 40 questions a row; 0.5 "
        "is chance.",
    ),
    Risk(
        "it becomes known that a person is among the rows, to whoever may query the model",
        "Area under the curve 0.555 ± 0.042 where the outcome is known; 0.5 is chance.",
    ),
    Risk(
        "features become known to the owners of queried models",
        "All rows, by design: area under the curve 1.000 ± 0.000 for the receiver. Where models are copied, no feature "
        "is in any message.",
    ),
    Risk(
        "the model is copied by whoever may query or ask",
        "A linear model of 10 features by 11 points. A copied model tells what it has memorised of its training rows.",
    ),
)
