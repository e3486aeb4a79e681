"""A program of the benchmark of peers that learns nothing: it says what it is given to say."""

import argparse
import json
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rate_seconds", type=float)
    parser.add_argument("--started", type=float)
    parser.add_argument("--returns", default="10,500,500,500")
    parser.add_argument("--pace", type=float, default=2.0, help="seconds an evaluation")
    parser.add_argument("--fails", action="store_true")
    options, _ = parser.parse_known_args()
    assert options.started <= time.time()
    if options.fails:
        sys.exit("no such library")
    if options.rate_seconds:
        rate = 100.0 * options.pace
        said = {"env_steps_per_second": 4 * rate, "updates_per_second": rate}
        print(json.dumps(said | {"measured_seconds": 1.0, "bytes_per_transition": None}))
        return
    for i, found in enumerate(map(float, options.returns.split(","))):
        seconds = options.pace * (i + 1)
        line = {"env_steps": 1000 * (i + 1), "updates": 100 * i, "seconds": seconds}
        line |= {"eval_seconds": 0.5 * (i + 1), "command_seconds": seconds + 3}
        print(json.dumps(line | {"eval_return": found}))
    print("not of the protocol")
    print(json.dumps({"compile_seconds": 1.25, "megabytes": 5}))


if __name__ == "__main__":
    main()
