"""What libraries are told before they are loaded."""

import os

from ps_dqn.run import libraries


def test_what_a_person_has_set_stays(monkeypatch) -> None:
    monkeypatch.setattr("os.environ", {"OPENBLAS_NUM_THREADS": "4"})
    libraries.set_up()
    assert os.environ == {"OPENBLAS_NUM_THREADS": "4", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
