"""Members: a node's part in pooling that another node was asked for."""

from grpc import StatusCode

from degroot.compute.compiled import Array
from degroot.exceptions import DeGrootError
from degroot.node.errors import told_to_peers
from degroot.node.peers.link import POOL
from degroot.node.peers.peers import Peers
from degroot.node.pooling.rounds import GuardBounds, PoolingTerms, check_rule, take_part
from degroot.node.pooling.session import HUNG_UP, MembersLost, Session, Sessions
from degroot.node.protocol.codec import Malformed, array, check_protocol, encode_models, tensor
from degroot.node.protocol.opinions import PeerOpinion, encode_forecast
from degroot.node.protocol.schemas import check_digest
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.server.access import Access, Exceeded, Visit


class PoolingMember:
    """Takes part in sessions, and takes in what other members send."""

    def __init__(self, circle: Peers, sessions: Sessions, access: Access) -> None:
        self._circle, self._sessions, self._access = circle, sessions, access

    async def take_part(self, message: wire.PoolMessage, visit: Visit) -> None:
        """Take part in a session that another node was asked for."""
        begin = message.begin
        visit.refusing(check_protocol, begin.protocol)
        me, names = self._circle.configuration.name, self._circle.names
        terms = visit.refusing(PoolingTerms.told, begin, me, names, visit.name)
        agent = self._circle.scores.seat.agent
        visit.refusing(check_digest, begin.schema_digest, agent.schema)
        points = visit.refusing(array, begin.points, (None, agent.n_features), "points")  # which have no gaps
        if agent.schema is not None:
            visit.refusing(agent.schema.check_numbers, points, "points")
        body = message.SerializeToString()
        visit.points(POOL, points, len(body))
        if visit.name not in terms.members:
            told = f"A session must be begun by a member; {visit.name!r} is none."
            visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)
        session = visit.refusing(self._sessions.begun, terms.session, terms.members)
        try:
            await self._pooled(terms, points, visit, session, body)
        finally:
            self._sessions.close(terms.session)

    async def _pooled(
        self, terms: PoolingTerms, points: Array, visit: Visit, session: Session, request: bytes
    ) -> None:  # fmt: skip
        me, patience = self._circle.configuration.name, self._circle.configuration.timing.deadline_seconds
        try:
            check_rule(self._circle.scores.seat)
            opinion = await self._circle.opinion(points, guard=terms.guard)
        except DeGrootError as error:
            fault = wire.PoolReply(ready=wire.Ready(fault=told_to_peers(error)))
            await visit.reply(POOL, len(points), fault, request, terms.origin)
            return
        await visit.reply(POOL, len(points), wire.PoolReply(ready=_ready(opinion)), request, terms.origin)
        held = await self._held(terms, len(points), visit) if terms.guard else None
        try:
            pooled = await take_part(me, terms, opinion, held, session, self._circle.links, patience)
            outcome = wire.Outcome(weight=tensor(pooled.part.weight))
        except MembersLost as lost:
            losses = [wire.Loss(name=name, reason=reason) for name, reason in lost.losses.items()]
            outcome = wire.Outcome(lost=losses)
        except Malformed as error:
            outcome = wire.Outcome(lost=[wire.Loss(name=me, reason=str(error))])
        # the same rows, which were counted
        await visit.send(POOL, 0, wire.PoolReply(outcome=outcome), terms.origin)

    async def _held(self, terms: PoolingTerms, points: int, visit: Visit) -> GuardBounds:
        message = await visit.next_message()
        if message is None or message.WhichOneof("kind") != "bounds":
            told = "Under a guard `bounds` must follow `begin`; they did not."
            visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)
        held: GuardBounds = visit.refusing(GuardBounds.decode, message.bounds, points, len(terms.members))
        return held

    async def listen(self, message: wire.PoolMessage, visit: Visit) -> None:
        """Take in a member's beliefs, round by round. It cannot be ahead by more than one: there is no flood."""
        visit.refusing(check_protocol, message.join.protocol)
        visit.message(POOL, 0, message.ByteSize())
        name, finished = message.join.session[:64], False
        session = visit.refusing(self._sessions.joined, name, visit.name)
        try:
            while (message := await visit.next_message()) is not None:
                visit.received(POOL, message.ByteSize())
                visit.refusing(self._received, session, visit.name, message)
            finished = True
        finally:
            if not finished:
                session.lose(visit.name, HUNG_UP)
            self._sessions.left(name, session, visit.name)

    def _received(self, session: Session, sender: str, message: wire.PoolMessage) -> None:
        kind, most = message.WhichOneof("kind"), self._access.allowances.limits.rows_per_request
        if kind != "beliefs":
            raise Malformed(f"After `join` there must be beliefs; got {kind}.")
        if max(message.beliefs.beliefs.shape, default=0) > most:
            raise Exceeded("rows_per_request", f"At most {most} points are allowed (rows_per_request); more came.")
        session.receive(sender, message.beliefs)


def _ready(opinion: PeerOpinion) -> wire.Ready:
    """What the asked node is told before the first round: beliefs and expectations, and no errors."""
    ready = wire.Ready(model_version=opinion.version, beliefs=tensor(opinion.opinion.beliefs))
    ready.scored.extend(encode_models(opinion.scored))
    if opinion.opinion.forecast is not None:
        ready.expectation.CopyFrom(encode_forecast(opinion.opinion))
    return ready
