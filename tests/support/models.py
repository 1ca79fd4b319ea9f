"""Models in files and behind a server, as the tests of models share them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
from skl2onnx import to_onnx
from tritonclient.grpc import service_pb2, service_pb2_grpc

from degroot.models import RemoteModel

RANDOM = np.random.default_rng(0)


X = RANDOM.normal(size=(60, 3))


Y = X @ [1.0, -2.0, 0.5] + 0.1 * RANDOM.normal(size=60)


LABELS = np.where(Y > 1, "high", np.where(Y < -1, "low", "mid"))


def onnx_file(folder: Path, model: object, *, rows: np.ndarray = X, **options: object) -> Path:
    path = folder / "model.onnx"
    wanted = {id(model): options} if options else None
    path.write_bytes(to_onnx(model, rows[:1], options=wanted).SerializeToString())
    return path


class Bomb:
    def __reduce__(self):
        return (Path.touch, (self.fuse,))


class Server(service_pb2_grpc.GRPCInferenceServiceServicer):
    """A model server of another make: each test says how it answers."""

    def __init__(self):
        self.metadata = service_pb2.ModelMetadataResponse(name="iris", versions=["9", "10"])
        self.metadata.inputs.add(name="x", datatype="FP32", shape=[-1, 3])
        self.metadata.outputs.add(name="y", datatype="FP32", shape=[-1, 1])
        self.predict = lambda rows: rows @ np.array([1.0, -2.0, 0.5])
        self.typed, self.sizes, self.index = False, [], None
        self.listing = grpc.StatusCode.UNIMPLEMENTED
        self.change = lambda answer: answer

    def ModelMetadata(self, request, context):  # noqa: N802
        if request.name != "iris":
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model {request.name}")
        return self.metadata

    def RepositoryIndex(self, request, context):  # noqa: N802
        if self.index is None:
            context.abort(self.listing, "no list")
        return self.index

    def ModelInfer(self, request, context):  # noqa: N802
        kind = {"FP32": np.float32, "FP64": np.float64}[request.inputs[0].datatype]
        rows = np.frombuffer(request.raw_input_contents[0], kind).reshape(tuple(request.inputs[0].shape))
        self.sizes.append(len(rows))
        values = np.asarray(self.predict(rows.astype(np.float64)))
        answer = service_pb2.ModelInferResponse(model_name="iris", model_version="10")
        output = answer.outputs.add(name="y", datatype="FP32", shape=values.shape)
        if self.typed:
            output.contents.fp32_contents.extend(values.ravel().tolist())
        else:
            answer.raw_output_contents.append(values.astype(np.float32).tobytes())
        return self.change(answer)


def serve_model() -> Iterator[tuple[Server, RemoteModel]]:
    server, servicer = grpc.server(ThreadPoolExecutor(2)), Server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    model = RemoteModel(f"127.0.0.1:{port}", "iris")
    yield servicer, model
    model.close()
    server.stop(None).wait()
