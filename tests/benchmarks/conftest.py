"""The benchmark's modules, which its programs import by their names as here."""

import sys

from support.programs import ROOT

# Behind all others, so that nothing is taken for them.
sys.path += [str(ROOT / "benchmarks" / "peers"), str(ROOT / "benchmarks")]
