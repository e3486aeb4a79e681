"""What the workers act in."""

import dataclasses
import json
from typing import NoReturn

from ps_dqn.config.options import SWITCH, option
from ps_dqn.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Environment:
    """What the workers act in."""

    env_id: str = option(
        "CartPole-v1",
        "Gymnasium id of the environment; or package.module:EnvClass, a class of yours, which "
        "every task must be able to import.",
    )
    env_module: str = option(
        "", "Python module to import first, on every task; it registers env_id with Gymnasium."
    )
    env_kwargs: str = option("{}", "Keyword arguments of the environment, as a JSON object.")
    env_wrappers: str = option(
        "",
        "Wrappers around each single environment, package.module:Wrapper, comma separated, the "
        "innermost first: classes or functions of an environment. Subclasses of "
        "gymnasium.vector.VectorWrapper go around the environment's own vector form.",
    )
    eval_env_kwargs: str = option(
        "", "Its keyword arguments in evaluations, as a JSON object. Default: env_kwargs."
    )
    num_envs: int = option(
        64,
        "Environments of the run: each worker steps its share together, at least one; with "
        "replay=rollout, as many as this (environments).",
        low=1,
        needs={"num_envs_per_worker": (None,)},
    )
    num_envs_per_worker: int | None = option(
        None,
        "Environments that each worker steps together, however many workers there are. Default: "
        "its share of num_envs.",
        low=1,
    )
    action_bins: int = option(
        0,
        "Values along each number of a continuous action (Box), evenly spaced from bound to bound; "
        "all their combinations are the actions. 0: such environments are refused (values).",
        low=0,
    )
    branching: bool = option(
        False,
        "Of actions of several parts, values for each part's choices instead of for all their "
        "combinations, of which there may then be millions (Tavakoli et al. 2018).",
    )
    action_masks: str = option(
        "auto",
        "Never take actions that the environment does not allow, nor bootstrap from them: where it "
        "says which ones it allows (auto), in any case (on), or not (off). It says so by "
        "info['action_mask'] or by a method action_masks().",
        choices=SWITCH,
    )
    vectorization: str = option(
        "auto",
        "How a worker steps its environments: all in one process (sync), one process each "
        "(async), the environment's own vector form where it has one, else sync (auto); or "
        "EnvPool's environment of this name, in C++ (envpool). With auto, wrappers of single "
        "environments are refused where those are something else, like ALE's, which give raw "
        "frames.",
        choices=("auto", "sync", "async", "envpool"),
    )
    env_timeout: float = option(
        60.0,
        "A step or reset of an environment that takes longer has failed. With vectorization=async "
        "the environments' processes are ended, and they are made anew; else the worker says where "
        "it hangs and ends, and is started again. One that takes longer to be made, or for its "
        "first steps before a run, is refused (seconds).",
        low=0.1,
        finite=False,
    )
    frame_stack: int = option(
        1,
        "Observations are this many frames, the newest last: replay keeps each frame once. An "
        "environment that does not stack them itself is wrapped to do so; ALE's own vector form is "
        "told how many (frames).",
        low=1,
    )

    @property
    def envs_per_worker(self) -> int:
        """Environments that a worker steps together, this being its share of the run."""
        return self.num_envs_per_worker or self.num_envs

    @property
    def in_evaluations(self) -> "Environment":
        """The environment that evaluations are made in."""
        kwargs = self.eval_env_kwargs or self.env_kwargs
        return dataclasses.replace(self, env_kwargs=kwargs, eval_env_kwargs="")

    def check_kwargs(self) -> None:
        """Refuses arguments of the environment that are none.

        Raises:
            UsageError: with the flag and what is wrong.
        """
        _check_kwargs("env_kwargs", self.env_kwargs)
        if self.eval_env_kwargs:
            _check_kwargs("eval_env_kwargs", self.eval_env_kwargs)


def _check_kwargs(flag: str, text: str) -> None:
    try:
        parsed = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--{flag}={text[:200]}: not JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise UsageError(f'--{flag}={text}: must be a JSON object, like {{"size": 8}}')


def _refuse_constant(name: str) -> NoReturn:
    """NaN and infinities, which are Python's own and no JSON."""
    raise ValueError(f"{name} is no number")
