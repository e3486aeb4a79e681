"""How much of the shorter of collecting and learning hides behind the longer (`--overlap`).

    python benchmarks/overlap.py --step_seconds=0.005

One worker trains CartPole's preset, and each step of its environments takes `step_seconds` more, in
which the processor is free (`slow_cartpole`). A run in which one waits for the other says how long
collecting and learning take by themselves; where both go on together, the env steps/s over those
of the slower one are to be near 1. Rounds of both alternate, since a machine's speed drifts.
"""

import argparse
import statistics

import slow_runs

from ps_dqn.telemetry.metrics import PHASES

COLLECTING, LEARNING = ("environment", "acting"), ("gradient", "sampling")


def run(overlap: str, options: argparse.Namespace, flags: list[str]) -> dict[str, float]:
    """Seconds for an env step, whole and by phase, after the compilations."""
    words = [*flags, "--num_workers=1", f"--overlap={overlap}"]
    step_seconds = options.step_seconds / options.num_envs
    given = step_seconds, options.num_envs, options.total_env_steps
    first, *rest = slow_runs.measured(words, *given)
    env_steps = int(rest[-1]["env_steps"]) - int(first["env_steps"])
    took = {name: sum(float(row[f"time/{name}"]) for row in rest) / env_steps for name in PHASES}
    seconds = float(rest[-1]["seconds"]) - float(first["seconds"])
    return took | {"whole": seconds / env_steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step_seconds", type=float, default=0.005, help="of all environments")
    parser.add_argument("--num_envs", type=int, default=64)
    parser.add_argument("--total_env_steps", type=int, default=60_000, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    options, flags = parser.parse_known_args()
    print(
        "| collecting | learning | one after the other | overlapped | of the longer of both |\n"
        + "|---" * 5
        + "|"
    )
    shares = []
    for _ in range(options.rounds):
        apart, together = (run(overlap, options, flags) for overlap in ("off", "on"))
        collecting, learning = (
            sum(apart[name] for name in names) for names in (COLLECTING, LEARNING)
        )
        shares.append(max(collecting, learning) / together["whole"])
        times = (collecting, learning, apart["whole"], together["whole"])
        micros = " | ".join(f"{1e6 * each:,.0f} µs" for each in times)
        print(f"| {micros} | {shares[-1]:.2f} |", flush=True)
    print(f"median of {options.rounds}: {statistics.median(shares):.2f}")


if __name__ == "__main__":
    main()
