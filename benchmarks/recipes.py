"""What a user could write instead, for the same answers: two recipes and the floor under all of them."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from degroot import Collective


class Vectorised:
    """The best that plain numpy and scikit-learn give: cached residuals, kneighbors, fancy indexing, batched solve."""

    def __init__(self, collective: Collective, neighbours: int, sample: np.ndarray, fastest) -> None:
        self.agents, self.neighbours = collective.agents, neighbours
        self.errors = [scorer.errors for scorer in collective.scorers]
        algorithms = ["brute", "kd_tree", "ball_tree"]
        first = self.agents[0].X
        indexes = {
            name: NearestNeighbors(n_neighbors=neighbours, algorithm=name, n_jobs=-1).fit(first) for name in algorithms
        }
        self.algorithm = fastest(
            {name: lambda i=index: i.kneighbors(sample, return_distance=False) for name, index in indexes.items()}
        )
        self.indexes = [
            NearestNeighbors(n_neighbors=neighbours, algorithm=self.algorithm, n_jobs=-1).fit(agent.X)
            for agent in self.agents
        ]

    def predict(self, X: np.ndarray) -> np.ndarray:
        K = len(self.agents)
        errors = np.empty((len(X), K, K))
        for i, index in enumerate(self.indexes):
            errors[:, i] = self.errors[i][index.kneighbors(X, return_distance=False)].mean(axis=1)
        trust = 1.0 / errors
        trust /= trust.sum(axis=-1, keepdims=True)
        system = trust.transpose(0, 2, 1) - np.eye(K)
        system[:, -1] = 1.0
        right = np.zeros((len(X), K, 1))
        right[:, -1] = 1.0
        weights = np.linalg.solve(system, right)[..., 0]
        beliefs = np.column_stack([agent.model.predict(X) for agent in self.agents])
        return (weights * beliefs).sum(axis=1)


class Literal:
    """The paper's algorithm as it is written down: per point, neighbours, model calls on them, 30 power iterations."""

    def __init__(self, collective: Collective, neighbours: int, rounds: int = 30) -> None:
        self.agents, self.neighbours, self.rounds = collective.agents, neighbours, rounds

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.array([self._one(x) for x in X])

    def _one(self, x: np.ndarray) -> float:
        trust = np.empty((len(self.agents), len(self.agents)))
        for i, scorer in enumerate(self.agents):
            distances = ((scorer.X - x) ** 2).sum(axis=1)
            near = np.argpartition(distances, self.neighbours - 1)[: self.neighbours]
            for j, other in enumerate(self.agents):
                trust[i, j] = 1.0 / ((other.model.predict(scorer.X[near]) - scorer.y[near]) ** 2).mean()
        trust /= trust.sum(axis=1, keepdims=True)
        beliefs = np.array([agent.model.predict(x[None])[0] for agent in self.agents])
        for _ in range(self.rounds):
            beliefs = trust @ beliefs
        return float(beliefs.mean())


class Floor:
    """One bare float32 matrix product for each agent, which gives the distances to all rows and nothing else."""

    def __init__(self, collective: Collective, block: int) -> None:
        self.block = block
        self.rows = []
        for agent in collective.agents:
            norms = (agent.X**2).sum(axis=1)
            self.rows.append(np.ascontiguousarray(np.column_stack([-2.0 * agent.X, norms]).T, dtype=np.float32))
        self.out = np.empty((block, max(rows.shape[1] for rows in self.rows)), np.float32)

    def predict(self, X: np.ndarray) -> None:
        queries = np.column_stack([X, np.ones(len(X))]).astype(np.float32)
        for rows in self.rows:
            for start in range(0, len(X), self.block):
                part = queries[start : start + self.block]
                np.matmul(part, rows, out=self.out[: len(part), : rows.shape[1]])
