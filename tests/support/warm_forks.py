"""The process that `warm` forks programs from. Arguments: a socket's descriptor, and `ROOM`.

A request is a command of Python's, a folder, and an environment, with descriptors for its output;
the answers are a process id and, once that has ended, its exit code.
"""

import ctypes
import json
import os
import pathlib
import runpy
import socket
import sys

# Where a fork writes its own command line: others find processes by theirs.
ROOM = "-" * 10_000
MOST = 100_000  # bytes of a request


def next_fork(requests: socket.socket) -> list[str]:
    """Returns in forks alone: the words after `python`."""
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, MOST, 2)
        if not request:
            os._exit(0)  # whoever asked is gone
        pid = os.fork()
        if pid == 0:
            requests.close()
            return _become(*json.loads(request), descriptors)
        for each in descriptors:
            os.close(each)
        requests.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(
    command: list[str], folder: str, environment: dict[str, str], output: list[int]
) -> list[str]:
    """Has what else a started process has of its own; the words after `python`."""
    os.setsid()
    for number, each in enumerate(output, start=1):
        os.dup2(each, number)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.orig_argv = command
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # of its arguments, in memory
    shown = b"\0".join(word.encode() for word in command)[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, shown, len(shown))
    return command[1:]


def run(words: list[str], folder: str) -> None:
    """Does what Python does with these words."""
    if words[0] == "-m":
        sys.path[0], sys.argv = folder, words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path[0], sys.argv = "", ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})
    else:
        sys.path[0], sys.argv = str(pathlib.Path(words[0]).parent), words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    import tensorflow  # noqa: F401

    given = next_fork(socket.socket(fileno=int(sys.argv[1])))
    # Here, so that the interpreter itself ends it, whatever comes out.
    run(given, os.getcwd())
