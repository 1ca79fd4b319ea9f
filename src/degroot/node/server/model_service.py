"""Query access to models: the Open Inference Protocol, version 2, over gRPC. Every node serves its own model so."""

import os
import re
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
from grpc import StatusCode
from tritonclient.grpc import service_pb2 as v2

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.node.config import QUERY
from degroot.node.protocol.codec import SALT_BYTES, Malformed
from degroot.node.protocol.schemas import check_digest
from degroot.node.records.chain import Origin
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.access import Access, Visit
from degroot.node.server.threads import run_model_in_thread
from degroot.schema import Schema

POINTS, PREDICTIONS = "points", "predictions"
SCHEMA = "schema"  # a parameter of queries between nodes: the digest of the schema
TYPES: dict[str, np.dtype[Any]] = {"FP64": np.dtype("<f8"), "FP32": np.dtype("<f4")}
MODEL_QUERY, ABOUT = "model query", "about the model"
SERVICE = "inference.GRPCInferenceService"
SCORING = "scoring"  # the purpose of a node's queries
NODE_QUERY = re.compile(rf"[0-9a-f]{{{16 + 2 * SALT_BYTES}}}")
METHODS = ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer")


def request(name: str, version: str, points: Array, question: str = "", digest: str = "") -> v2.ModelInferRequest:
    """A query of a node's model at points (M, d); its id is the number of a question, and a salt.

    `digest`: of the schema by which the points are numbers, if there is one.
    """
    number = question and question + os.urandom(SALT_BYTES).hex()
    tensor = v2.ModelInferRequest.InferInputTensor(name=POINTS, datatype="FP64", shape=points.shape)
    raw = np.ascontiguousarray(points, TYPES["FP64"]).tobytes()
    made = v2.ModelInferRequest(
        model_name=name, model_version=version, id=number, inputs=[tensor], raw_input_contents=[raw]
    )
    if digest:
        made.parameters[SCHEMA].string_param = digest
    return made


def find_origin(asked: v2.ModelInferRequest, caller: str) -> Origin:
    """Where a query comes from: a node's has an id that `request` makes, others have any."""
    is_scoring = NODE_QUERY.fullmatch(asked.id) is not None
    return Origin(asked.id[:16], caller, SCORING) if is_scoring else Origin("", caller)


def response(asked: v2.ModelInferRequest, version: str, predictions: Array) -> v2.ModelInferResponse:
    """A node's predictions (M,) or (M, Q)."""
    tensor = v2.ModelInferResponse.InferOutputTensor(name=PREDICTIONS, datatype="FP64", shape=predictions.shape)
    raw = np.ascontiguousarray(predictions, TYPES["FP64"]).tobytes()
    return v2.ModelInferResponse(
        model_name=asked.model_name, model_version=version, id=asked.id, outputs=[tensor], raw_output_contents=[raw]
    )


def points_in(asked: v2.ModelInferRequest, features: int, schema: Schema | None = None) -> Array:
    """The points in a query, if it is well-formed; numbers by the schema, if there is one."""
    if SCHEMA in asked.parameters:
        check_digest(asked.parameters[SCHEMA].string_param, schema)
    if len(asked.inputs) != 1 or asked.inputs[0].name != POINTS:
        names = ", ".join(each.name[:100] for each in asked.inputs[:3]) or "none"
        raise Malformed(f"The input must be one tensor called {POINTS!r}; got {names}.")
    if any(each.name != PREDICTIONS for each in asked.outputs):
        raise Malformed(f"The output must be {PREDICTIONS!r}; {asked.outputs[0].name[:100]!r} was asked for.")
    tensor = asked.inputs[0]
    if tensor.datatype not in TYPES:
        raise Malformed(f"`{POINTS}` must be of the type {' or '.join(TYPES)}; got {tensor.datatype[:100]!r}.")
    shape = tuple(tensor.shape)
    if len(shape) != 2 or shape[0] < 0 or shape[1] != features:
        raise Malformed(f"`{POINTS}` must have the shape (any, {features}); got {shape[:8]}.")
    values = _numbers(tensor, asked.raw_input_contents)
    if values.size != shape[0] * shape[1]:
        raise Malformed(f"`{POINTS}` must hold {shape[0] * shape[1]} numbers; it holds {values.size}.")
    points: Array = values.astype(np.float64).reshape(shape)
    if schema is not None:
        schema.check_numbers(points, POINTS)
    elif not np.isfinite(values).all():
        raise Malformed(f"`{POINTS}` must be finite; some of it is not.")
    return points


def predictions_in(answer: v2.ModelInferResponse, rows: int, outputs: int) -> Array:
    """The predictions (M, Q) in a node's answer, if it is well-formed."""
    if len(answer.outputs) != 1 or answer.outputs[0].datatype != "FP64" or len(answer.raw_output_contents) != 1:
        raise Malformed("Predictions must be one tensor of the type FP64.")
    if len(answer.raw_output_contents[0]) != 8 * rows * outputs:
        raise Malformed(f"Predictions must be {outputs} numbers for each of {rows} rows; they are not.")
    values: Array = np.frombuffer(answer.raw_output_contents[0], TYPES["FP64"]).astype(np.float64)
    if not np.isfinite(values).all():
        raise Malformed("Predictions must be finite; some are not.")
    return values.reshape(rows, outputs)


def _numbers(tensor: Any, raw: Any) -> Any:
    """What a tensor holds, in raw bytes or as typed contents."""
    kind = TYPES[tensor.datatype]
    typed = tensor.contents.fp64_contents if tensor.datatype == "FP64" else tensor.contents.fp32_contents
    if len(raw) > 1 or (len(raw) == 1 and len(typed)):
        raise Malformed(f"`{POINTS}` must come once; it came several times.")
    if len(raw) == 1:
        if len(raw[0]) % kind.itemsize:
            raise Malformed(f"`{POINTS}` must hold numbers of {kind.itemsize} bytes; it holds {len(raw[0])} bytes.")
        return np.frombuffer(raw[0], kind)
    return np.array(typed, kind)


class ModelService:
    """One node's model, for whoever may query it."""

    def __init__(self, name: str, seat: Callable[[], ScoredAgent], access: Access) -> None:
        self._name, self._seat, self._access = name, seat, access

    async def ServerLive(self, request: Any, context: Any) -> v2.ServerLiveResponse:  # noqa: N802
        """Whether the node is there."""
        return await self._told(request, context, v2.ServerLiveResponse(live=True))

    async def ServerReady(self, request: Any, context: Any) -> v2.ServerReadyResponse:  # noqa: N802
        """Whether it answers."""
        return await self._told(request, context, v2.ServerReadyResponse(ready=True))

    async def ServerMetadata(self, request: Any, context: Any) -> v2.ServerMetadataResponse:  # noqa: N802
        """What serves the model."""
        return await self._told(request, context, v2.ServerMetadataResponse(name="degroot", version="1"))

    async def ModelReady(self, request: Any, context: Any) -> v2.ModelReadyResponse:  # noqa: N802
        """Whether that model answers."""
        known = request.name == self._name and request.version in ("", self._seat().version)
        return await self._told(request, context, v2.ModelReadyResponse(ready=known))

    async def ModelMetadata(self, request: Any, context: Any) -> v2.ModelMetadataResponse:  # noqa: N802
        """What the model takes and gives."""
        seat, tensor = self._seat(), v2.ModelMetadataResponse.TensorMetadata
        outputs = [-1] if seat.agent.outputs is None else [-1, seat.agent.outputs]
        metadata = v2.ModelMetadataResponse(
            name=self._name, versions=[seat.version], platform="degroot",
            inputs=[tensor(name=POINTS, datatype="FP64", shape=[-1, seat.agent.n_features])],
            outputs=[tensor(name=PREDICTIONS, datatype="FP64", shape=outputs)],
        )  # fmt: skip
        return await self._told(request, context, metadata, (request.name, request.version))

    async def ModelInfer(self, request: Any, context: Any) -> v2.ModelInferResponse:  # noqa: N802
        """Predictions for some points."""
        async with self._access.admitted(context, QUERY) as visit:
            seat = self._seat()
            await self._known(visit, (request.model_name, request.model_version))
            try:
                points = points_in(request, seat.agent.n_features, seat.agent.schema)
            except InvalidInput as error:
                visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, str(error))
            body = request.SerializeToString()
            visit.points(MODEL_QUERY, points, len(body))
            try:
                if seat.quick(len(points)):
                    predictions = seat.agent.predict(points)
                else:
                    predictions = await run_model_in_thread(seat.agent.predict, points)
            except InvalidInput as error:
                visit.refuse("model", StatusCode.INTERNAL, str(error))
            answer = response(request, seat.version, predictions)
            visit.record_exchange(MODEL_QUERY, len(points), body, answer, find_origin(request, visit.name))
            return answer

    async def _told(self, request: Any, context: Any, answer: Any, model: tuple[str, str] | None = None) -> Any:
        """Something about the server, or about a model that has to be this one."""
        async with self._access.admitted(context, QUERY) as visit:
            visit.message(ABOUT, 0, request.ByteSize())
            if model is not None:
                await self._known(visit, model)
            visit.count(ABOUT, answer.ByteSize())
            return answer

    async def _known(self, visit: Visit, model: tuple[str, str]) -> None:
        version = self._seat().version
        if model[0] != self._name or model[1] not in ("", version):
            told = f"The model must be {self._name!r}, version {version!r}; got {model[0][:100]!r}, {model[1][:100]!r}."
            visit.refuse("no such model", StatusCode.NOT_FOUND, told)


def add_to(server: grpc.aio.Server, service: ModelService) -> None:
    """Let a server serve the model. The protocol's other methods are as unknown to it as those of other services."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(service, name),
            request_deserializer=getattr(v2, f"{name}Request").FromString,
            response_serializer=getattr(v2, f"{name}Response").SerializeToString,
        )
        for name in METHODS
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
