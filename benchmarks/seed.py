"""What learners that infer for actors make of an environment, beside workers that act themselves.

    python benchmarks/seed.py --rounds=3
    python benchmarks/seed.py --rounds=3 --step_ms=3

CartPole's preset with as many environment steps in each run: one worker, as many workers as there
are actors, and one learner with actors. A step of each environment takes `step_ms` more, in which
the processor is free (`slow_cartpole`). Rounds alternate, since a machine's speed drifts; ratios
are to one worker of the same round.
"""

import argparse
import statistics

import slow_runs

SHOWN = {
    "env_steps": "env steps/s",
    "updates": "updates/s",
    "inference/batch_size": "batch (environments)",
    "inference/latency_ms": "latency (ms)",
    "inference/latency_ms_max": "longest (ms)",
}


def kinds(actors: int) -> dict[str, list[str]]:
    """The flags of what is compared."""
    seed = ["--topology=seed", f"--num_actors={actors}"]
    return {
        "one worker": ["--num_workers=1"],
        f"{actors} workers": [f"--num_workers={actors}"],
        f"seed, {actors} actors": seed,
        f"seed, {actors} actors, --overlap=off": [*seed, "--overlap=off"],
    }


def run(words: list[str], options: argparse.Namespace, flags: list[str]) -> dict[str, float]:
    """Rates from the first row on that has learned; what inference was like."""
    given = options.step_ms / 1e3, options.num_envs, options.total_env_steps
    first, *rest = slow_runs.measured([*words, *flags], *given)
    seconds = float(rest[-1]["seconds"]) - float(first["seconds"])
    found = {
        name: (float(rest[-1][name]) - float(first[name])) / seconds
        for name in ("env_steps", "updates")
    }
    for name in SHOWN.keys() - found.keys():
        known = [float(row[name]) for row in rest if row[name]]
        if known:
            found[name] = max(known) if name.endswith("max") else statistics.fmean(known)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--num_envs", type=int, default=16)
    parser.add_argument("--step_ms", type=float, default=0.0, help="of each environment")
    parser.add_argument("--total_env_steps", type=int, default=30_000, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    options, flags = parser.parse_known_args()
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds(options.actors)}
    for number in range(options.rounds):
        for kind, words in kinds(options.actors).items():
            found[kind].append(run(words, options, [f"--seed={900 + number}", *flags]))
            print(
                kind, {name: round(each, 2) for name, each in found[kind][-1].items()}, flush=True
            )
    one = [each["env_steps"] for each in found["one worker"]]
    print(f"\n| | ratio | {' | '.join(SHOWN.values())} |\n|{'---|' * (2 + len(SHOWN))}")
    for kind, rounds in found.items():
        ratios = [each["env_steps"] / base for each, base in zip(rounds, one, strict=True)]
        cells = [f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"]
        for name in SHOWN:
            values = [each[name] for each in rounds if name in each]
            cells.append(f"{statistics.median(values):,.1f}" if values else "–")
        print(f"| {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
