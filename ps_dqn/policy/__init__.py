"""A trained network at work, without a cluster and without the environment's packages."""

from ps_dqn.policy.loading import load
from ps_dqn.policy.policy import Player, Policy

__all__ = ["Player", "Policy", "load"]
