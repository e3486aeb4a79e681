"""A network that takes its time: what is sent to one address arrives at another one later."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def relays(targets: list[str], seconds: float) -> Iterator[list[str]]:
    """Addresses of this machine, one for each of these, that are so far away (each way)."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers: list[asyncio.Server] = []
    ends: list[asyncio.StreamWriter] = []

    async def serve(target: str) -> str:
        host, _, port = target.rpartition(":")

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ends.append(writer)
            try:
                there, back = await asyncio.open_connection(host, int(port))
            except OSError:
                writer.close()
                return
            ends.append(back)
            with contextlib.suppress(asyncio.CancelledError):  # at the end of all
                await asyncio.gather(_carry(reader, back, seconds), _carry(there, writer, seconds))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def end() -> None:
        for server in servers:
            server.close()
        for writer in ends:
            writer.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.1)  # until the loop has closed what was aborted

    try:
        yield [asyncio.run_coroutine_threadsafe(serve(each), loop).result(10) for each in targets]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Brings one direction's bytes over, each so much later, until either side ends."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(due - loop.time(), 0.0))
            if not data:
                return
            writer.write(data)
            await writer.drain()

    delivering = asyncio.create_task(deliver())
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            under_way.put_nowait((loop.time() + seconds, data))
    under_way.put_nowait((loop.time() + seconds, b""))
    with contextlib.suppress(OSError):
        await delivering
    writer.close()
