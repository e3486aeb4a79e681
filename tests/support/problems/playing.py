"""What the rules of the problems are worth, and chance."""

import gymnasium


def played(env: gymnasium.Env, follows_rule: bool, episodes: int = 30) -> float:
    """The mean return, by the environment's own rule or at random."""
    total = 0.0
    for seed in range(episodes):
        _, info = env.reset(seed=seed)
        env.action_space.seed(seed)
        is_over = False
        while not is_over:
            mask = info.get("action_mask")
            has_choice = mask is not None and mask.any()
            action = env.action_space.sample(mask if has_choice else None)
            if follows_rule:
                action = env.unwrapped.rule()  # type: ignore[attr-defined]
            _, reward, terminated, truncated, info = env.step(action)
            is_over = terminated or truncated
            total += float(reward)
    return total / episodes
