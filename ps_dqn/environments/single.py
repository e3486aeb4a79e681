"""One environment as the vectors have them, made again from how theirs were made."""

from typing import Any

import gymnasium

from ps_dqn.environments import listed, masks, named


def make(recipe: dict[str, Any]) -> gymnasium.Env:
    """The environment that a guard goes around.

    Args:
        recipe: the environment's `env_id`, `env_kwargs`, `env_wrappers`, `action_bins`,
            `branching`, and `has_masks`; the last three are 0 or false where they are missing.

    Raises:
        UsageError: a wrapper is not there, or fails.
        Exception: whatever the environment's own code raises.
    """
    kwargs = dict(recipe["env_kwargs"])
    kwargs.pop("vector_kwargs", None)  # of the vector that it was in
    env: gymnasium.Env = gymnasium.make(named.environment(recipe["env_id"]), **kwargs)
    for wrap in named.wrappers(recipe["env_wrappers"]).single:
        env = wrap(env)
    bins, branching = recipe.get("action_bins", 0), recipe.get("branching", False)
    for wrap in listed.wrappers(recipe["env_id"], env.action_space, bins, branching):
        env = wrap(env)
    return masks.wrap(env) if recipe.get("has_masks", False) else env
