"""Policies act as evaluations do, on what environments return themselves."""

import json
import pathlib
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from support import kinds_of_runs
from support.kinds_of_runs import Shown
from support.tiers import tiered

from ps_dqn.config import Config
from ps_dqn.environments import interface as interfaces
from ps_dqn.errors import UsageError
from ps_dqn.evaluator.checkpoint_player import CheckpointPlayer
from ps_dqn.export import agreement, observations
from ps_dqn.networks import heads
from ps_dqn.policy import greedy, loading
from ps_dqn.policy.policy import Policy
from ps_dqn.run.checkpoints import Checkpoints

SEED, EPISODES = 7, 2


def made(kind: str, path: pathlib.Path, **values: Any) -> tuple[Config, pathlib.Path, Policy]:
    config = kinds_of_runs.config(kind, **values)
    folder = kinds_of_runs.folder(config, path / "run")
    return config, folder, loading.load(config, folder)


class Recorded(CheckpointPlayer):
    """An evaluation that keeps what its network was given and what it chose."""

    def __init__(self, config: Config):
        super().__init__(config, EPISODES, SEED, None)
        self.given: list[list[np.ndarray]] = []
        self.chosen: list[np.ndarray] = []
        greedy_action = self._greedy

        def kept(parameters, observations, state, masks):
            acted = greedy_action(parameters, observations, state, masks=masks)
            self.given.append([each.numpy() for each in (observations, state, masks)])
            self.chosen.append(acted[0].numpy())
            return acted

        self._greedy = kept


def masks_of(infos: dict[str, Any], policy: Policy) -> np.ndarray | None:
    return np.stack(list(infos["action_mask"])) if policy.interface.spec.has_masks else None


@pytest.mark.parametrize(
    "kind",
    tiered(
        kinds_of_runs.KINDS,
        quick=("masks", "normalized", "grid_of_one"),
        slow=("recurrent", "branching", "a3c", "of_a_user"),
    ),
)
def test_it_acts_as_evaluations_do(kind: str, tmp_path: pathlib.Path) -> None:
    config, folder, policy = made(kind, tmp_path)
    checkpoint = Checkpoints(folder / "checkpoints", keep=1).find("best")
    evaluated = Recorded(config)
    evaluated.play(checkpoint)
    assert len(evaluated.chosen) == 6
    chosen = [policy.interface.actions.of(numbers) for numbers in evaluated.chosen]

    arguments = json.loads(config.environment.env_kwargs)
    vector = gymnasium.vector.SyncVectorEnv([lambda: Shown(**arguments)] * EPISODES)
    seen, infos = vector.reset(seed=SEED)
    player, rewards = policy.player(EPISODES), None
    for numbers, wanted in zip(evaluated.chosen, chosen, strict=True):
        actions = player.act(seen, rewards, masks_of(infos, policy))
        assert actions.dtype == vector.single_action_space.dtype
        assert actions.tolist() == wanted.tolist(), numbers
        seen, rewards, *_, infos = vector.step(actions)
    vector.close()

    single, alone, reward = Shown(**arguments), policy.player(), None
    observation, info = single.reset(seed=SEED)
    for wanted in chosen:
        action = alone.act(observation, reward, info.get("action_mask"))
        assert single.action_space.contains(action)
        assert np.array_equal(action, wanted[0])
        observation, reward, *_, info = single.step(action)

    for given in evaluated.given:
        outputs = policy.outputs(
            greedy.inputs_of(policy.interface, *given),
            given[2] if policy.interface.spec.has_masks else None,
            is_one=False,
        )
        met = observations.Met(*given)
        average = checkpoint.state.average
        wanted = agreement.wanted(evaluated.network, average, policy.interface, met)
        name = greedy.chosen_by(outputs)
        assert (name == greedy.LOGITS) == (config.value.algorithm == "a3c")
        np.testing.assert_allclose(outputs[name], wanted[name], rtol=2e-4, atol=2e-5)


def test_an_episode_that_begins_forgets_the_one_before(tmp_path: pathlib.Path) -> None:
    for kind in ("recurrent", "stacked_images"):
        _, _, policy = made(kind, tmp_path / kind)
        space = policy.interface.own.observation
        space.seed(1)
        seen = [np.stack([space.sample() for _ in range(2)]) for _ in range(6)]
        rewards = np.ones(2, np.float32)
        first, player = policy.player(2), policy.player(2)
        wanted = [first.act(each, rewards).tolist() for each in seen[3:]]
        memory = [first._state.copy(), {**first._frames}]
        for each in seen[:3]:
            player.act(each, rewards)
        player.reset(np.array([True, False]))
        found = [player.act(each, rewards).tolist() for each in seen[3:]]
        assert [row[0] for row in found] == [row[0] for row in wanted]
        # Of the one that went on something is left.
        same = [player._state == memory[0]] + [
            frames == memory[1][name] for name, frames in player._frames.items()
        ]
        if kind == "recurrent":
            np.testing.assert_allclose(player._state[0], memory[0][0], rtol=1e-5)
            assert not same[0][1].all()
        player.reset()
        assert [player.act(each, rewards).tolist() for each in seen[3:]] == wanted


def test_act_alone_is_refused_where_it_cannot_know(tmp_path: pathlib.Path) -> None:
    _, _, recurrent = made("recurrent", tmp_path / "one")
    with pytest.raises(ValueError, match=r"is recurrent: make player = policy.player\(\)"):
        recurrent.act(np.zeros(4, np.float32))
    player = recurrent.player()
    player.act(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match=r"act\(observation, reward="):
        player.act(np.zeros(4, np.float32))
    _, _, stacked = made("stacked_images", tmp_path / "two")
    with pytest.raises(ValueError, match=r"Policy.q_values .* reads the last 3 frames"):
        stacked.q_values(np.zeros((7, 6), np.uint8))


def test_what_is_no_observation_is_refused(tmp_path: pathlib.Path) -> None:
    _, _, policy = made("plain", tmp_path / "plain")
    for wrong in (np.zeros(3), np.zeros((2, 2, 4)), {"a": 1}, "text", [1, 2, 3, np.nan]):
        with pytest.raises(ValueError, match="observation"):
            policy.act(wrong)
    with pytest.raises(ValueError, match="the run had no masks"):
        policy.act(np.zeros(4), mask=[True, True, False])
    with pytest.raises(ValueError, match="takes a batch of 3 observations"):
        policy.player(3).act(np.zeros((2, 4)))
    _, _, parts = made("double_precision_parts", tmp_path / "parts")
    space = parts.interface.own.observation
    space.seed(0)
    for name, wrong in (("cell", 0), ("tools", [[7, 0]]), ("camera", np.full((6, 5, 3), 0.5))):
        with pytest.raises(ValueError, match=f"observation_{name}"):
            parts.act({**space.sample(), name: wrong})
    with pytest.raises(ValueError, match="is no observation of"):
        parts.act({"camera": np.zeros((6, 5, 3), np.uint8)})
    _, _, masked = made("masks", tmp_path / "masked")
    with pytest.raises(ValueError, match=r"a mask here has the shape \(3,\)"):
        masked.act(np.zeros(4), mask=[True, True])
    observation = np.ones(4)
    best = int(np.argmax(masked.q_values(observation)))
    mask = np.arange(3) == (best + 1) % 3
    assert masked.act(observation, mask) == 2 + (best + 1) % 3
    assert masked.act(observation, np.zeros(3, np.bool_)) == 2 + best  # nothing allowed: all is
    assert heads.NOT_ALLOWED < -1e6


def test_it_needs_no_environment(tmp_path: pathlib.Path) -> None:
    config, folder, policy = made("parts_and_images", tmp_path)
    space = policy.interface.own.observation
    gone = Config.from_values(
        kinds_of_runs.BASE
        | kinds_of_runs.KINDS["parts_and_images"]
        | {"env_id": "no_such_module:Env", "env_module": "no_such_module"}
    )
    there = loading.load(gone, folder)
    space.seed(3)
    for _ in range(5):
        observation = space.sample()
        assert there.act(observation) == policy.act(observation)
    assert there.source.env_steps == 4321
    assert there.source.eval_return == 200.0
    # Runs of before have no such file: then the environment is asked.
    (folder / interfaces.FILE).unlink()
    with pytest.raises(UsageError, match="no_such_module"):
        loading.load(gone, folder)
    assert loading.load(config, folder).act(observation) == policy.act(observation)


def test_best_and_newest_are_different(tmp_path: pathlib.Path) -> None:
    config, folder, best = made("plain", tmp_path)
    newest = loading.load(config, folder, "newest")
    observation = np.ones(4, np.float32)
    assert (best.q_values(observation) != newest.q_values(observation)).any()
    with pytest.raises(UsageError, match=r"has \d+ parameters, and the network"):
        loading.load(Config.from_values(kinds_of_runs.BASE | {"hidden_sizes": (9,)}), folder)


def test_threads_get_the_same_answers(tmp_path: pathlib.Path) -> None:
    _, _, policy = made("plain", tmp_path)
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    wanted = policy.act(observations).tolist()
    found: dict[int, list[int]] = {}

    def ask(i: int) -> None:
        found[i] = [int(policy.act(each)) for each in observations]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(wanted)) > 1
    assert list(found.values()) == [wanted] * 4
