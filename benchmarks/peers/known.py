"""The peers: their programs, their packages, and what they cannot do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from protocol import PONG

CARTPOLE, LANDER = "CartPole-v1", "LunarLander-v3"


class Peer(NamedTuple):
    """A program.

    Attributes:
        script: beside this file.
        packages: what its virtual environment has, pinned; none: what runs the benchmark.
        options: of the program, beside those that all are given.
        threads: of its numerical library.
        without: problems that it cannot have, and why. The mode of rates is `RATES`.
        does: what it is, for people.
        compiles: the environment with the learner, so that nothing of it is Python.
    """

    script: str
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    threads: int = 1
    without: Mapping[str, str] = MappingProxyType({})
    does: str = ""
    compiles: bool = False

    @property
    def place(self) -> str:
        """The folder of its virtual environment: one for each list of packages."""
        return PLACES[self.packages]


# What Gymnasium's extra box2d asks for, of which one package has no wheel.
_LANDER = ("box2d==2.3.10", "pygame==2.6.1")
_TORCH, _BOX = "torch==2.13.0", "gymnasium[box2d]==1.4.0"
_ATARI = ("ale-py==0.12.1", "opencv-python-headless==4.13.0.92")
_SB3 = ("stable-baselines3==2.9.2", _TORCH, _BOX, *_ATARI)
_CLEANRL = (_TORCH, _BOX, *_ATARI)
# gymnax asks for a Gymnasium below 1.4, and imports six without asking for it.
_JAX = (
    *("jax==0.10.2", "gymnax==1.0.1", "flax==0.12.8", "optax==0.2.8", "six==1.17.0"),
    *("gymnasium==1.3.0", *_LANDER),
)
_TIANSHOU = ("tianshou==2.0.1", _TORCH, _BOX)
# Ray asks for this Gymnasium.
_RLLIB = ("ray[rllib]==2.60.0", _TORCH, "gymnasium==1.2.2", *_LANDER)
PLACES = {
    (): "",
    _SB3: "sb3",
    _CLEANRL: "cleanrl",
    _JAX: "jax",
    _TIANSHOU: "tianshou",
    _RLLIB: "rllib",
}
RATES = "rates"
_MLP_ALONE = {PONG: "the program has no convolutions here"}
_NO_LANDER = {LANDER: "gymnax has no LunarLander"}
_NO_PONG = {PONG: "gymnax has no Atari games"}
_NO_REPLAY = {RATES: "it has no replay, and no minibatch from it"}

PEERS = {
    "ours": Peer("ours.py", does="the problem's preset, two workers"),
    "ours-cold": Peer(
        "ours.py", options=("--cold",), does="the same, nothing compiled by earlier runs"
    ),
    "ours-1worker": Peer("ours.py", options=("--workers=1",), does="the same, one worker"),
    "ours-pqn": Peer(
        "ours.py", options=("--preset=pqn",), without=_NO_REPLAY, does="preset pqn, two workers"
    ),
    "sb3": Peer("sb3.py", _SB3, does="Stable-Baselines3, RL-Zoo's settings, one thread"),
    "sb3-2threads": Peer("sb3.py", _SB3, threads=2, does="the same, two threads"),
    "cleanrl": Peer("cleanrl_torch.py", _CLEANRL, does="CleanRL's dqn, PyTorch"),
    "cleanrl-jax": Peer(
        "cleanrl_jax.py", _JAX, without=_MLP_ALONE, does="CleanRL's dqn_jax, Gymnasium in Python"
    ),
    "tianshou": Peer("tianshou_dqn.py", _TIANSHOU, without=_MLP_ALONE, does="its example's DQN"),
    "rllib": Peer("rllib_dqn.py", _RLLIB, without=_MLP_ALONE, does="its tuned example's DQN"),
    "purejaxrl-dqn": Peer(
        "purejaxrl_dqn.py",
        _JAX,
        without=_NO_LANDER | _NO_PONG,
        does="DQN compiled with gymnax's environment",
        compiles=True,
    ),
    "purejaxrl-pqn": Peer(
        "purejaxrl_pqn.py",
        _JAX,
        without=_NO_LANDER | _NO_PONG | _NO_REPLAY,
        does="PQN compiled with gymnax's environment",
        compiles=True,
    ),
}


def why_not(peer: Peer, env_id: str, rates: bool) -> str:
    """Why a peer cannot be measured; nothing where it can."""
    return peer.without.get(env_id, "") or (peer.without.get(RATES, "") if rates else "")
