"""What tasks are told: flags, and a place in a small cluster; and how they refuse it."""

import json

from absl import flags as absl_flags

from ps_dqn.flags import command_line, experiment, tasks

CLUSTER = {"chief": ["localhost:1"], "ps": ["localhost:2"], "worker": ["localhost:3"]}


def parsed(*words: str) -> absl_flags.FlagValues:
    """The coordinator's flags but for the files', parsed."""
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    command_line.parse(values, ["program", *words])
    return values


def tf_config(job: str, index: int = 0) -> str:
    """A task's place in a small cluster, as TF_CONFIG has it."""
    return json.dumps({"cluster": CLUSTER, "task": {"type": job, "index": index}})


def only_error(text: str) -> str:
    """The one line a refusal is, without its prefix."""
    assert text.startswith("error: ")
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    return text.removeprefix("error: ").rstrip("\n")
