"""MinAtar's games for Gymnasium (Young and Tian 2019, arXiv:1903.03176).

The package does not register them by itself: this module does, where a game is named as
`--env_id=MinAtar/Breakout-v0` (all six actions, as in the paper) or `-v1` (those that do
something). Needs the extra: `pip install "ps-dqn[minatar]"`.
"""

from minatar.gym import register_envs

register_envs()
