"""Looks for good options of CartPole with Optuna, which ends runs that are not worth their time.

    python docs/tune.py --trials=20

Needs the extra: pip install "ps-dqn[optuna]".
"""

import argparse
from typing import Any

import optuna

from ps_dqn import Measures, train


def tune(trials: int, pruner: optuna.pruners.BasePruner, **options: Any) -> optuna.Study:
    """Tries options one after the other.

    Args:
        trials: how many.
        pruner: says which run is ended early, by its evaluations.
        **options: of every run.
    """

    def objective(trial: optuna.Trial) -> float:
        returns: list[float] = []
        is_pruned = False

        def judge(measures: Measures) -> bool:
            nonlocal is_pruned
            if measures.eval_return is None:
                return False
            # By the number of the evaluation: runs are not evaluated at the very same steps.
            trial.report(measures.eval_return, len(returns))
            returns.append(measures.eval_return)
            is_pruned = trial.should_prune()
            return is_pruned

        train(
            "CartPole-v1",
            callback=judge,
            verbose=False,
            learning_rate=trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True),
            learning_rate_end=3e-4,
            n_step=trial.suggest_int("n_step", 1, 10),
            gamma=trial.suggest_categorical("gamma", [0.9, 0.98, 0.99]),
            **options,
        )
        if is_pruned:
            raise optuna.TrialPruned
        # Not the best one: luck in one evaluation is none in three.
        return sum(returns[-3:]) / len(returns[-3:])

    sampler = optuna.samplers.TPESampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    return study


def main() -> None:
    """Tunes, and says what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--env_steps", type=int, default=60_000, help="of each run")
    arguments = parser.parse_args()
    median = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=2)
    study = tune(
        arguments.trials,
        median,
        num_workers=1,
        seed=7,
        total_env_steps=arguments.env_steps,
        eval_period=5000,
        target_return=float("inf"),
    )
    for trial in study.trials:
        print(f"{trial.number:3} {trial.state.name:8} {trial.value or 0:6.1f} {trial.params}")
    print("best:", study.best_params)


if __name__ == "__main__":
    main()
