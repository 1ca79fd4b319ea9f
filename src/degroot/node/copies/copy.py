"""Copies: a peer's model that is asked here, in this process or in one of its own."""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import copy
from typing import Any

import numpy as np

from degroot.agents.agent import Agent
from degroot.compute.compiled import Array
from degroot.exceptions import AgentError, DeGrootError, InvalidInput
from degroot.models import check_features
from degroot.models.onnx import OnnxModel, from_onnx
from degroot.models.onnx_graph import find_hazard
from degroot.models.sandbox import CHUNK_ROWS, SandboxError, SandboxLimitExceeded, open_in_sandbox
from degroot.node.config import Limits
from degroot.node.copies.bundle import Bundle
from degroot.node.protocol.codec import Model
from degroot.node.protocol.schemas import ModelInputs
from degroot.node.scoring.scored_agent import answers_at_once
from degroot.node.server.threads import run_model_in_thread

MAX_IN_NODE_BYTES = 8 << 20  # of a file that is looked into here, which can take 25 times as much memory


class CopyError(DeGrootError):
    """A copy of a peer's model cannot be used."""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(owner, reason)
        self.owner, self.reason = owner, " ".join(reason.split())

    def __str__(self) -> str:
        return f"The copy of {self.owner!r}'s model: {self.reason}"


class ModelCopy:
    """A peer's model at this node. What it predicts is checked as a peer's own predictions are.

    Parameters
    ----------
    bundle : where the model is from
    model : something with ``predict(X)``; its process, if it has one, ends with the copy
    agent : this node's own, whose features, outputs and classes the copy has to share
    executor : threads of its own, where it has a process of its own: others' models do not wait for it
    """

    def __init__(self, bundle: Bundle, model: Any, agent: Agent, executor: Executor | None = None) -> None:
        self.bundle, self._executor = bundle, executor
        self._agent = copy(agent)  # the same features, outputs and classes, with the peer's model
        self._agent.name, self._agent.model, self._agent.own_predictions = bundle.owner, model, None
        self.inputs = ModelInputs.from_message(bundle.manifest, bundle.manifest.feature_names)
        self._agent.form = None  # what is copied takes numbers
        self.able = self.inputs.find_able(agent.X, agent.lacks)  # rows of this node for which it does not abstain
        self.near_by = executor is None and answers_at_once(self._agent, self.able)

    @property
    def model(self) -> Model:
        """Whose model, and which version of it."""
        return Model(self.bundle.owner, self.bundle.version)

    def predict(self, points: Array) -> Array:
        """What the model says of points (M, d), in chunks no larger than the one that was tried: (M, Q)."""
        starts = range(0, len(points), CHUNK_ROWS)
        try:
            said = [self._agent.predict(points[start : start + CHUNK_ROWS]) for start in starts]
        except (AgentError, SandboxError, InvalidInput) as error:
            cause = error.__cause__ if isinstance(error.__cause__, SandboxError) else error
            raise CopyError(self.bundle.owner, _describe_failure(cause)) from None
        outputs = self._agent.outputs or 1
        return np.concatenate([each.reshape(-1, outputs) for each in said]) if said else np.empty((0, outputs))

    async def predict_in_thread(self, points: Array) -> Array:
        """The same, while others go on."""
        if self._executor is None:
            return await run_model_in_thread(self.predict, points)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.predict, points)


def open_copy(bundle: Bundle, agent: Agent, limits: Limits) -> ModelCopy:
    """The model in a bundle, tried out on some of the node's rows in a process of its own, with limits.

    Afterwards it stays there, unless it is an ONNX file, not too large, of known operators only: what these cost
    depends on the number of rows and on nothing else, so that a file that has passed the trial runs in the node.
    """
    manifest = bundle.manifest
    try:
        sandboxed = open_in_sandbox(
            manifest.suffix, bundle.content, bundle.labels, memory_bytes=limits.copy_memory_bytes,
            seconds=limits.copy_seconds,
        )  # fmt: skip
    except (SandboxError, InvalidInput) as error:
        raise CopyError(bundle.owner, _describe_failure(error)) from None
    try:
        if manifest.feature_names:
            check_features(sandboxed, list(manifest.feature_names))
        tried = ModelCopy(bundle, sandboxed, agent, ThreadPoolExecutor(1, f"degroot-copy-{bundle.owner}"))
        if not len(tried.able):  # it cannot be tried: it stays where it is limited
            return tried
        tried.predict(agent.X[tried.able[np.arange(CHUNK_ROWS) % len(tried.able)]])
        if not _runs_in_node(bundle):
            return tried
        inside = ModelCopy(bundle, from_onnx(bundle.content), agent)
    except CopyError:
        sandboxed.close()
        raise
    except InvalidInput as error:
        sandboxed.close()
        raise CopyError(bundle.owner, str(error)) from None
    sandboxed.close()
    return inside


def _describe_failure(error: DeGrootError) -> str:
    """Why a copy cannot be opened or asked; of a limit that was exceeded, the setting too."""
    return f"{error} (limits.copy_{error.limit})" if isinstance(error, SandboxLimitExceeded) else str(error)


def _runs_in_node(bundle: Bundle) -> bool:
    small = len(bundle.content) <= MAX_IN_NODE_BYTES
    return bundle.manifest.suffix == OnnxModel.suffix and small and not find_hazard(bundle.content)
