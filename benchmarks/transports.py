"""What this machine and TensorFlow move without our code: the measure of `parameter_server.py`."""

import multiprocessing
import socket
import statistics
import subprocess
import sys
import time


def raw_tcp(num_bytes: int) -> dict[str, float]:
    """Seconds to ask for and get this many bytes over a loopback TCP connection."""
    context = multiprocessing.get_context("fork")
    listener = socket.create_server(("127.0.0.1", 0))
    sender = context.Process(target=_send, args=(listener, num_bytes), daemon=True)
    sender.start()
    with socket.create_connection(listener.getsockname()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(num_bytes))
        times = []
        for _ in range(max(5, min(300, 300_000_000 // num_bytes))):
            started = time.perf_counter()
            connection.sendall(b"go")
            got = 0
            while got < num_bytes:
                got += connection.recv_into(buffer[got:])
            times.append(time.perf_counter() - started)
    sender.join()
    listener.close()
    return {"tcp": statistics.median(times)}


def _send(listener: socket.socket, num_bytes: int) -> None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message = bytes(num_bytes)
    while connection.recv(2):
        connection.sendall(message)


def raw_grpc(num_bytes: int) -> dict[str, float]:
    """The same through gRPC's Python package, or nothing where that is not installed."""
    program = _GRPC.format(num_bytes=num_bytes)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return {"grpc": float(ran.stdout)} if ran.returncode == 0 else {}


_GRPC = """
import concurrent.futures, multiprocessing, statistics, time
def serve(pipe):
    import grpc
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=options)
    message = bytes({num_bytes})
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: message)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", dict(m=handler)),))
    pipe.send(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    pipe.recv()
if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=serve, args=(theirs,), daemon=True).start()
    import grpc
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    channel = grpc.insecure_channel(f"127.0.0.1:{{ours.recv()}}", options=options)
    call = channel.unary_unary("/s/m")
    call(b"go")
    times = []
    for _ in range(max(5, min(300, 300_000_000 // {num_bytes}))):
        started = time.perf_counter()
        call(b"go")
        times.append(time.perf_counter() - started)
    print(statistics.median(times))
"""


def trace(function, *signature):
    import tensorflow as tf

    return tf.function(function, autograph=False).get_concrete_function(*signature)


def tensorflow_pull(coordinator, servers: int, sizes: list[int], count: int) -> float:
    """Seconds to read variables of these sizes on a worker, by TensorFlow alone."""
    import tensorflow as tf

    shards = []
    for i in range(servers):
        with tf.device(f"/job:ps/replica:0/task:{i}/device:CPU:0"):
            shards.append(tf.Variable(tf.zeros([sizes[i]])))

    def read(repeats):
        def body(i, last):
            with tf.control_dependencies([last]):
                parts = [shard.read_value() for shard in shards]
            return i + 1, tf.add_n([part[0] for part in parts])

        return tf.while_loop(
            lambda i, _: i < repeats, body, [tf.constant(0), tf.constant(0.0)],
            parallel_iterations=1,
        )[1]  # fmt: skip

    closure = trace(read, tf.TensorSpec([], tf.int32))
    coordinator.schedule(closure, args=(2,)).fetch()
    started = time.perf_counter()
    coordinator.schedule(closure, args=(count,)).fetch()
    return (time.perf_counter() - started) / count
