"""Connects to a cluster of this process, with TensorFlow's log of the parts of functions."""

import os

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "cluster_function_library_runtime=1"}

from ps_dqn.cluster import in_process
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import Placement
from ps_dqn.coordinator.connecting import connection

if __name__ == "__main__":
    placement = Placement("in_process", on_this_machine(2, 1), "fork", 1, 4)
    in_process.start(placement.spec, intra_op_threads=1, inter_op_threads=4)
    connection.connect(placement)
    os._exit(0)
