"""Trainings to which something happens: each goes on to its end, and nothing is left or lost."""

import contextlib
import os
import pathlib
import sys

import pytest
from support.processes import Processes
from support.scenarios import SCENARIOS
from support.tiers import tiered
from support.trial import Trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Fewer than the report's of steps that wait for longer: as many seconds, and half of the learning.
STEPS, STEP_SECONDS = 24_000, 0.001
# Processes that want to run, for each core, from which on trainings are longer: environments wait
# as long as ever, and tasks that are started again take longer.
CROWDED = 4.0
# A task that is lost, or stands still, alone has tests of its own elsewhere.
OFTEN = (
    *("all workers killed", "a worker and the parameter server killed"),
    "the coordinator and a worker killed, --restart",
)


@pytest.mark.parametrize(
    "name", tiered([each.name for each in SCENARIOS if not each.tested_by], slow=OFTEN)
)
def test_training_goes_on_to_its_end(
    processes: Processes, tmp_path: pathlib.Path, name: str
) -> None:
    [scenario] = [each for each in SCENARIOS if each.name == name]
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    steps = round(STEPS * max(crowd / CROWDED, 1.0))
    with contextlib.ExitStack() as stack:
        trial = Trial(processes, tmp_path, scenario, 1, steps, stack, STEP_SECONDS)
        print(trial.row())
