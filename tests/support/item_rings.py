"""Items of several environments that a sampler draws from, without a replay behind them."""

import numpy as np

from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.samplers import Candidates, Sampler

Item = tuple[int, int]  # environment and number


class ItemRings:
    """Items of several environments, `slots` of each, and a sampler that draws from them."""

    def __init__(
        self, sampler: Sampler, num_envs: int, slots: int, array: np.ndarray | None = None
    ):
        self.sampler = sampler
        self.slots = slots
        self.end = np.zeros(num_envs, np.int64)
        self.invalid: set[Item] = set()

        def allocate(name: str, shape: tuple[int, ...], dtype: object) -> np.ndarray:
            self.array = np.zeros(shape, dtype) if array is None else array
            return self.array

        sampler.attach(num_envs, slots, np.random.default_rng(7), allocate)

    def add(self, counts: list[int]) -> "ItemRings":
        self.end = self.end + counts
        return self

    @property
    def candidates(self) -> Candidates:
        first = np.maximum(self.end - self.slots, 0)
        return Candidates(first, self.end.copy(), self._is_valid)

    def items(self) -> list[Item]:
        first, end, _ = self.candidates
        every = [(env, i) for env in range(len(end)) for i in range(first[env], end[env])]
        return [item for item in every if item not in self.invalid]

    def draw(
        self, minibatches: int, batch_size: int, progress: float = 0.0
    ) -> tuple[list[list[Item]], np.ndarray]:
        drawn = self.drawn = self.sampler.draw(self.candidates, minibatches, batch_size, progress)
        assert drawn.weights.dtype == np.float32
        assert drawn.envs.shape == drawn.items.shape == drawn.weights.shape
        pairs = np.stack([drawn.envs, drawn.items], axis=-1).tolist()
        return [[(env, i) for env, i in row] for row in pairs], drawn.weights

    def prioritize(self, errors: dict[Item, float], count: int = 4000) -> None:
        """Draws until every item was drawn, and gives each its TD error."""
        drawn, _ = self.draw(1, count)
        assert set(drawn[0]) == set(self.items())
        values = [[errors[item] for item in row] for row in drawn]
        self.update(np.array(values, np.float32))

    def update(self, errors: np.ndarray) -> None:
        """Gives what was drawn last its TD errors."""
        self.sampler.update(self.drawn, errors)

    def priorities(self) -> dict[Item, float]:
        """Of all items, relative to the smallest: with β = 1 the weights are min p / p."""
        drawn, weights = self.draw(1, 4000, progress=1.0)
        found = dict(zip(drawn[0], (1 / weights[0]).tolist(), strict=True))
        assert found.keys() == set(self.items())
        return found

    def _is_valid(self, envs: np.ndarray, items: np.ndarray) -> np.ndarray:
        pairs = zip(envs.tolist(), items.tolist(), strict=True)
        return np.array([pair not in self.invalid for pair in pairs], np.bool_)


def prioritized(alpha: float = 1.0, beta: float = 0.4, epsilon: float = 1e-9) -> Prioritized:
    return Prioritized(alpha, beta, epsilon)


def counts_of(drawn: list[list[Item]], items: list[Item]) -> np.ndarray:
    index = {item: i for i, item in enumerate(items)}
    return np.bincount([index[item] for row in drawn for item in row], minlength=len(items))


def is_plausible(counts: np.ndarray, shares: np.ndarray) -> bool:
    """Chi-square: mean f, standard deviation √(2f); stratified draws vary less than random ones."""
    expected = counts.sum() * shares / shares.sum()
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic < freedom + 4 * (2 * freedom) ** 0.5


def random_errors(ring: ItemRings, seed: int = 0) -> dict[Item, float]:
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], len(ring.items()))
    return dict(zip(ring.items(), (rng.uniform(0.1, 3, len(signs)) * signs).tolist(), strict=True))
