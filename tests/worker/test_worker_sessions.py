"""What a worker hosts from one run to the next, and how it follows the run's schedules.

The toy environment is that of `support/paying_env.py`.
"""

import math
import pathlib

import numpy as np
import pytest
from support.numpy_vectors import make_shard
from support.paying_env import SMALL, Paying
from support.worker_calls import RUN, SIZE, Open, Worker

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.wire import messages
from ps_dqn.wire.messages import PushHeader


@pytest.mark.parametrize(
    ("env_steps", "epsilon", "rate"),
    # 0.9 down in 100 steps; 0.4 down in 200.
    [(0, 1.0, 0.5), (25, 0.775, 0.45), (100, 0.1, 0.3), (150, 0.1, 0.2), (999, 0.1, 0.1)],
)
def test_epsilon_and_learning_rate_follow_the_runs_env_steps(
    opened: Open, env_steps: int, epsilon: float, rate: float
) -> None:
    explored = {"epsilon_start": 1.0, "epsilon_end": 0.1, "epsilon_decay_steps": 100}
    learned = {"learning_rate": 0.5, "learning_rate_end": 0.1, "learning_rate_decay_steps": 200}
    worker = opened(**explored, **learned)
    worker.restore(env_steps)
    pulled = worker.pull()
    assert (pulled.learning_rate, pulled.epsilon) == pytest.approx((rate, epsilon), rel=1e-6)
    worker.collect()
    worker.pack(0.0)
    header = messages.unpack(PushHeader, worker.packed.header)
    assert messages.rate(header.rate_bits) == pytest.approx(rate)
    assert worker.report().epsilon == pytest.approx(epsilon)


# A quarter of epsilon's way from 1 to 0.1, an eighth of the step size's from 0.5 to 0.1.
@pytest.mark.parametrize(
    ("schedule", "epsilon", "rate"),
    [
        ("constant", 1.0, 0.5),
        ("cosine", 1 - 0.9 * (1 - math.cos(math.pi / 4)) / 2,
         0.5 - 0.4 * (1 - math.cos(math.pi / 8)) / 2),
        ("exponential", 0.1**0.25, 0.5 * (0.1 / 0.5) ** 0.125),
    ],
)  # fmt: skip
def test_epsilon_and_learning_rate_follow_schedules_of_their_own(
    opened: Open, schedule: str, epsilon: float, rate: float
) -> None:
    ways = {
        "epsilon": {"epsilon_start": 1.0, "epsilon_end": 0.1, "epsilon_decay_steps": 100},
        "learning_rate": {
            "learning_rate": 0.5,
            "learning_rate_end": 0.1,
            "learning_rate_decay_steps": 200,
        },
    }
    for name, expected_epsilon, expected_rate in (
        ("epsilon", epsilon, 0.45),
        ("learning_rate", 0.775, rate),
    ):
        chosen = {**ways["epsilon"], **ways["learning_rate"], f"{name}_schedule": schedule}
        if schedule == "constant":  # has no end
            del chosen[f"{name}_end"], chosen[f"{name}_decay_steps"]
            if name == "epsilon":  # what the tests' own experiment says of it
                chosen |= {"epsilon_end": 0.05, "epsilon_decay_steps": None}
            else:
                chosen |= {"learning_rate_end": 1e-4, "learning_rate_decay_steps": 200_000}
        worker = opened(**chosen)
        worker.restore(25)
        assert worker.pull().learning_rate == pytest.approx(expected_rate, rel=1e-6)
        assert worker.report().epsilon == pytest.approx(expected_epsilon)


@pytest.mark.parametrize("index", [0, 2])
def test_the_ladder_is_the_same_for_every_worker(opened: Open, index: int) -> None:
    explored = {"epsilon_start": 0.5, "epsilon_end": 0.5, "epsilon_ladder": True}
    worker = opened(index, num_workers=3, num_envs_per_worker=3, **explored)
    mean = (0.5 + 0.5**4.5 + 0.5**8) / 3
    assert worker.pull().epsilon == pytest.approx(mean)
    assert worker.report().epsilon == pytest.approx(mean)


def test_seeds_of_tensorflow_are_of_the_run_the_worker_and_the_push(opened: Open) -> None:
    def seeds(index: int, seed: int) -> set[tuple[int, ...]]:
        worker = opened(index, num_workers=2, seed=seed)
        found = set()
        for _ in range(3):
            found.add(tuple(worker.pull().seed.tolist()))
            worker.pack(0.0)
            worker.push()
        return found

    first, again = seeds(0, seed=1), seeds(0, seed=1)
    assert len(first) == 3
    assert again == first
    assert first.isdisjoint(seeds(1, seed=1)), "another worker's"
    assert first.isdisjoint(seeds(0, seed=2)), "another run's"


def test_who_goes_on_with_a_run_does_not_repeat_how_it_began(opened: Open) -> None:
    def began(env_steps: int) -> tuple[tuple[int, ...], list[int]]:
        worker = opened(epsilon_start=1.0, epsilon_schedule="constant", min_replay_size=40)
        if env_steps:
            worker.restore(env_steps)
        seed = tuple(worker.pull().seed.tolist())
        worker.collect(action=0)
        return seed, worker.sample().batch.actions.ravel().tolist()

    fresh, resumed, later = began(0), began(25), began(50)
    assert fresh == began(0)
    assert resumed == began(25), "what it goes on from decides"
    for one, other in ((fresh, resumed), (resumed, later), (fresh, later)):
        assert one[0] != other[0]
        assert one[1] != other[1]


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_epsilon_is_what_it_acts_with(opened: Open, epsilon: float) -> None:
    worker = opened(epsilon_start=epsilon, epsilon_end=epsilon, min_replay_size=150)
    worker.pull()
    assert worker.collect(action=2) > 75
    got = worker.report()
    # The reward is the action: 2 at every of an episode's four steps, or anything from 0 to 2.
    assert (got.return_sum == 8 * got.episodes) == (epsilon == 0.0)


def test_requests_of_another_run_are_an_error(opened: Open) -> None:
    worker = opened()
    worker.host.close()
    worker.begin(run=RUN + 1)
    with pytest.raises(RuntimeError, match="serves another run"):
        worker.pull()


def test_a_new_run_builds_everything_anew(opened: Open) -> None:
    worker = opened(min_replay_size=2)
    worker.exchange(slots=7.0)
    closed = Paying.closed
    new = Config.from_values(SMALL | {"num_envs_per_worker": 1, "min_replay_size": 30})
    worker.config = new
    worker.shards = [
        make_shard(new, RUN + 1, 2, 1, np.zeros(size, np.float32))
        for size in messages.shard_sizes(SIZE, 2)
    ]
    requests = worker.begin(run=RUN + 1)
    # Another one was only looked at.
    assert Paying.closed == closed + 2 + 1, "the old environments are ended"
    assert requests.tolist() == [[RUN + 1, 0, -1, 0, 0]] * 2
    pulled = worker.pull()
    assert pulled.steps == 0
    assert not pulled.slots.any()
    assert pulled.acting.observations.tolist() == [[0, 0]], "the new configuration's environments"
    assert pulled.acting.should_act == 1
    got = worker.report()
    assert (got.env_steps, got.replay_size, got.pushes) == (0, 0, 0)


def test_the_same_run_continues(opened: Open) -> None:
    worker = opened()
    worker.pull()
    worker.collect(steps=3)
    worker.begin()
    assert worker.pull().acting.observations.tolist() == [[0, 3], [0, 3]]
    assert worker.report().env_steps == 6


def test_close_forgets(opened: Open) -> None:
    worker = opened()
    worker.pull()
    worker.collect(steps=3)
    closed = Paying.closed
    worker.host.close()
    assert Paying.closed == closed + 2
    assert worker.host.figures is None
    worker.begin()
    assert worker.pull().acting.observations.tolist() == [[0, 0], [0, 0]]


def evaluate(worker: Worker, episodes: int, seed: int = 0) -> list[float]:
    playing = worker.begin_evaluation(episodes, seed)
    assert len(playing.observations) == playing.episodes == episodes
    state = np.zeros((episodes, worker.config.state_size), np.float32)
    while worker.within("evaluate_step", np.ones(episodes, np.int32), state).episodes:
        pass
    played = worker.within("evaluate_end")
    assert played.ok == 1
    return played.returns.tolist()


def test_another_number_of_episodes_makes_new_environments(opened: Open) -> None:
    worker = opened()
    assert evaluate(worker, 3) == [4.0] * 3
    closed = Paying.closed
    assert evaluate(worker, 3) == [4.0] * 3
    assert Paying.closed == closed
    assert evaluate(worker, 5) == [4.0] * 5
    assert Paying.closed == closed + 3 + 1  # one that was only looked at


def test_an_evaluation_leaves_the_training_alone(opened: Open) -> None:
    worker, twin = opened(eval_epsilon=0.5), opened(eval_epsilon=0.5)
    for each in (worker, twin):
        each.pull()
        each.collect(steps=3)
    evaluate(worker, 3)
    for each in (worker, twin):
        each.collect(steps=6)
    assert worker.report().return_sum == twin.report().return_sum
    pairs = zip(worker.sample().batch, twin.sample().batch, strict=True)
    assert all((one == other).all() for one, other in pairs)


def test_a_new_run_ends_the_old_evaluation(opened: Open) -> None:
    worker = opened()
    evaluate(worker, 3)
    closed = Paying.closed
    worker.begin(run=RUN + 1)
    assert Paying.closed >= closed + 3 + 2  # of the evaluation, and of the training


FILES = {"replay_files": True, "min_replay_size": 6}


def test_replay_is_kept_in_files_of_the_run_and_the_worker(
    opened: Open, tmp_path: pathlib.Path
) -> None:
    # In memory, if not asked for otherwise.
    opened(2, worker_dir=tmp_path).exchange()
    assert list(tmp_path.iterdir()) == []
    worker = opened(2, worker_dir=tmp_path, **FILES)
    worker.exchange(slots=7.0)
    written = worker.report().replay_size
    assert written >= 6
    assert any((tmp_path / "run_77-worker-2" / "replay").iterdir())
    worker.host.close()

    # A worker that comes back, and one that never was there.
    again, other = (opened(index, worker_dir=tmp_path, **FILES) for index in (2, 1))
    assert again.report().replay_size == written
    assert other.report().replay_size == 0
    pulled = again.pull()
    assert again.collect() == 1, "as a push takes: replay is warm already"
    assert pulled.acting.should_act == 1
    # Its optimizer goes on too.
    assert (pulled.slots == 7).all()
    assert pulled.steps == 2
    assert not other.pull().slots.any()


def test_replay_in_files_needs_a_place(opened: Open) -> None:
    worker = Worker(3, **FILES)
    with pytest.raises(UsageError) as caught:
        worker.begin()
    assert str(caught.value) == (
        "--replay_files: worker 3 has no place for them; start it with --worker_dir"
    )


@pytest.mark.parametrize(("others", "ends"), [(0, 0), (2, 1)])
def test_who_cannot_be_used_ends_where_others_go_on(
    monkeypatch: pytest.MonkeyPatch, others: int, ends: int
) -> None:
    worker, told = Worker(3, **FILES), []
    monkeypatch.setattr(worker.host, "_end", told.append)
    worker.others = others
    with pytest.raises(UsageError) as caught:
        worker.begin()
    assert told == [caught.value] * ends
