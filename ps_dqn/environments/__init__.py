"""Gymnasium environments as this project uses them: vectors with discrete actions."""

from ps_dqn.environments.making import describe, describe_and_look
from ps_dqn.environments.specification import EnvironmentSpec
from ps_dqn.environments.step import Step
from ps_dqn.environments.vectors import Environments

__all__ = ["EnvironmentSpec", "Environments", "Step", "describe", "describe_and_look"]
