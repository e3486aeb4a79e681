"""All rules, applied to one run, and how what they find is told."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from ps_dqn.doctor import behaviour, faults, learning, speed
from ps_dqn.doctor.patient import GOES_ON, Finding, Patient
from ps_dqn.run import terminal

RULES = (*faults.RULES, *learning.RULES, *behaviour.RULES, *speed.RULES)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Of one run."""

    patient: Patient
    bottleneck: Finding | None  # None: nothing is known of the workers' time yet
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        return {
            "run": str(self.patient.run.path),
            "env_id": self.patient.config.environment.env_id,
            "state": self.patient.state,
            "env_steps": int(self.patient.env_steps),
            "bottleneck": self.bottleneck._asdict() if self.bottleneck else None,
            "phase_seconds": self.patient.phases,
            "findings": [finding._asdict() for finding in self.findings],
            "rules": [rule.__name__ for rule in RULES],
        }


def make(patient: Patient) -> Diagnosis:
    """Applies every rule."""
    found = (rule(patient) for rule in RULES)
    return Diagnosis(patient, speed.bottleneck(patient), tuple(filter(None, found)))


def show(console: Console, diagnosis: Diagnosis) -> None:
    """Tells people."""
    patient = diagnosis.patient
    goes_on = patient.state == GOES_ON
    for line in (
        f"{patient.run.path}: {patient.config.environment.env_id}, "
        f"{patient.env_steps:,.0f} of {patient.total_env_steps:,} env steps"
        + (", goes on" if goes_on else f", {patient.state}"),
        "",
        *_told("bottleneck", diagnosis.bottleneck, patient.run.settings),
        *(
            line
            for finding in diagnosis.findings
            for line in _told(finding.rule, finding, patient.run.settings)
        ),
        _count(diagnosis),
    ):
        terminal.say(console, line)


def _told(title: str, finding: Finding | None, settings: Mapping[str, str]) -> list[str]:
    if finding is None:
        return [f"{title}: nothing is known yet", ""]
    name = finding.change.removeprefix("--").partition("=")[0]
    now = f" (now {settings[name] or 'empty'})" if name in settings else ""
    return [
        f"{title}: {finding.seen}",
        f"  change  {finding.change}{now}",
        f"  expect  {finding.expect}",
        "",
    ]


def _count(diagnosis: Diagnosis) -> str:
    found, rules = len(diagnosis.findings), len(RULES)
    if not diagnosis.patient.run.rows:
        return "nothing has been measured yet: look again after --metrics_period"
    if not found:
        return f"healthy: none of {rules} rules has found anything"
    return f"{found} of {rules} rules have found something; change one thing at a time"
