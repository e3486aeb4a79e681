"""This project beside what people would pick instead, on the same machine, in turns.

    python benchmarks/peers --until_solved --times=10 --first_seed=800 --seeds=2
    python benchmarks/peers --rates --output=rates.csv
    python benchmarks/peers --pong --output=pong.csv
    python benchmarks/peers --until_solved --problems=ALE/Pong-v5 --peers=ours,sb3-2threads \
        --eval_period=25000 --max_seconds=5640 --seeds=1 --output=pong-solved.csv

Each peer gets a virtual environment with pinned packages (`--environments`), made where it is
missing. Before each run of a peer ours runs with the same seed. All learn for as many environment
steps as the settings of RL-Zoo are made for, times `--times`, and are evaluated greedily over the
same 20 episodes every `--eval_period` steps; ours at its presets' period. `--rates` measures how
fast programs learn CartPole with the same network, minibatch and ratio of steps to updates, and
`--pong` the same of Pong with DQN's network. Runs that the output has are not made again;
`--seeds=0` only shows them. A JSON and a picture are written beside the output.
"""

import argparse
import itertools
import pathlib
import signal
import sys
from collections.abc import Iterator

import figures
import measuring
import tables
from installing import Unavailable, interpreter
from known import CARTPOLE, LANDER, PEERS, why_not
from measuring import Asked, measure
from protocol import PONG, STEPS
from results import Results, write_json

KEY = ("env_id", "peer", "seed", "env_steps_asked", "until_solved", "beside")
RATES_KEY = ("env_id", "peer", "seed", "rate_seconds", "beside")
ENDLESS = 100_000_000  # environment steps, where a time ends the run
PONG_PEERS = "ours,ours-1worker,sb3,sb3-2threads,cleanrl"


def turns(peers: list[str]) -> Iterator[tuple[str, str]]:
    """Who runs, and beside whom: ours before each of the others."""
    others = [name for name in peers if name != "ours"]
    if "ours" in peers and not others:
        yield "ours", ""
    for name in others:
        if "ours" in peers:
            yield "ours", name
        yield name, ""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", action="store_true", help="of CartPole, with one network")
    parser.add_argument("--pong", action="store_true", help="rates of Pong, with DQN's network")
    parser.add_argument("--rate_seconds", type=float, default=20.0, help="after the warm-up")
    parser.add_argument("--problems", default=f"{CARTPOLE},{LANDER}", help=f"of {', '.join(STEPS)}")
    parser.add_argument("--peers", default="", help=f"of {', '.join(PEERS)}; default: all")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--times", type=float, default=1.0, help="so often RL-Zoo's steps")
    parser.add_argument("--eval_period", type=int, default=5000, help="environment steps")
    parser.add_argument("--until_solved", action="store_true", help="runs end where solved")
    parser.add_argument("--max_seconds", type=float, default=float("inf"), help="of training")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("peers.csv"))
    parser.add_argument("--json", type=pathlib.Path, help="default: beside the output")
    parser.add_argument("--picture", type=pathlib.Path, help="default: beside the output")
    parser.add_argument("--environments", type=pathlib.Path, default=pathlib.Path(".peers"))
    options = parser.parse_args()
    options.of_rates = options.rates or options.pong
    everybody = PONG_PEERS.split(",") if options.pong else list(PEERS)
    options.names = options.peers.split(",") if options.peers else everybody
    if unknown := [name for name in options.names if name not in PEERS]:
        parser.error(f"--peers: no {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if options.of_rates:
        options.problem_ids = [PONG if options.pong else CARTPOLE]
    else:
        options.problem_ids = options.problems.split(",")
    if unknown := [each for each in options.problem_ids if each not in STEPS]:
        parser.error(f"--problems: no {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return options


def ask(options: argparse.Namespace, env_id: str, seed: int) -> Asked:
    """What one run is asked for."""
    if options.of_rates:
        return Asked(env_id, seed, ENDLESS, ENDLESS, rate_seconds=options.rate_seconds)
    steps = round(STEPS[env_id] * options.times)
    period, solved = options.eval_period, options.until_solved
    return Asked(env_id, seed, steps, period, solved, options.max_seconds)


def run(options: argparse.Namespace, name: str, asked: Asked) -> dict[str, object]:
    """What was found, or why nothing was."""
    peer = PEERS[name]
    why = why_not(peer, asked.env_id, options.of_rates)
    try:
        if why:
            raise Unavailable(why)
        return measure(peer, interpreter(peer, options.environments.resolve()), asked)
    except Unavailable as reason:
        return {"unavailable": str(reason)}


def main() -> None:
    options = parse()
    key = RATES_KEY if options.of_rates else KEY
    measured = measuring.RATES if options.of_rates else measuring.SCORES
    results = Results(options.output, key, measured)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for env_id, (name, beside) in itertools.product(options.problem_ids, turns(options.names)):
            asked = ask(options, env_id, seed)
            of = asked._asdict() | {"peer": name, "beside": beside}
            of["env_steps_asked"] = asked.env_steps
            this = {each: of[each] for each in key}
            # Where a peer cannot be measured, nothing is beside it.
            if results.has(this) or (beside and why_not(PEERS[beside], env_id, options.of_rates)):
                continue
            found = run(options, name, asked)
            results.add(this, found)
            said = found.get("unavailable") or "done"
            print(f"{env_id} {name} seed {seed}: {said}", file=sys.stderr, flush=True)
    rows = results.read()
    if not rows:
        sys.exit(f"{options.output} has no runs")
    summary = tables.rates(rows) if options.of_rates else tables.scores(rows)
    print(tables.show(summary, options.of_rates))
    write_json(options.json or options.output.with_suffix(".json"), rows, summary)
    draw = figures.rates if options.of_rates else figures.scores
    draw(summary, options.picture or options.output.with_suffix(".png"))


if __name__ == "__main__":
    # Whoever ends the benchmark ends the program that it waits for, and what that has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main()
