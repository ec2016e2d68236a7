# Round trips between a client and a server of picows, each in its own process on uvloop. Arguments: the size of a
# message, and the cores of the client and of the server, -1 for any. Prints "ready", or "missing" and the name of the
# missing module. Each line of input is a duration in nanoseconds. Its answer is the median of the round trips in
# microseconds. Ends with its input.
import asyncio
import os
import socket
import statistics
import sys
import time

try:
    import uvloop
    from picows import WSListener, WSMsgType, ws_connect, ws_create_server
except ImportError as error:
    sys.exit(print(f"missing {error.name}"))

SIZE, NEAR, FAR = map(int, sys.argv[1:4])
WARMUP = 30_000_000


def stay(core):
    if core >= 0:
        os.sched_setaffinity(0, {core})


class Echo(WSListener):
    def on_ws_frame(self, transport, frame):
        transport.send(WSMsgType.BINARY, frame.get_payload_as_bytes())


async def serve(parent):
    stay(FAR)
    server = await ws_create_server(lambda request: Echo(), "127.0.0.1", 0)
    parent.sendall(server.sockets[0].getsockname()[1].to_bytes(2, "big"))
    # The parent sends nothing more. When it has ended, this process ends.
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(parent, over.set)
    await over.wait()
    os._exit(0)


class Asking(WSListener):
    def on_ws_connected(self, transport):
        self.transport = transport
        self.message = bytearray(index * 31 & 0xFF for index in range(SIZE))
        self.number = 0

    def measure(self, duration):
        self.over = loop.create_future()
        self.times = []
        self.before = time.monotonic_ns()
        self.begin = self.before + WARMUP
        self.end = self.begin + duration
        self.ask()
        return self.over

    def ask(self):
        self.number += 1
        self.message[:8] = self.number.to_bytes(8, "little")
        self.transport.send(WSMsgType.BINARY, self.message)

    def on_ws_frame(self, transport, frame):
        if frame.get_payload_as_bytes() != self.message:
            return self.over.set_exception(ValueError("an answer differs from its message"))
        now = time.monotonic_ns()
        if now >= self.begin:
            self.times.append(now - self.before)
        self.before = now
        if now < self.end:
            self.ask()
        else:
            self.over.set_result(statistics.median(self.times) / 1000)

    def on_ws_disconnected(self, transport):
        if not self.over.done():
            self.over.set_exception(ConnectionError("the server is gone"))


near, far = socket.socketpair()
if os.fork() == 0:
    near.close()
    uvloop.run(serve(far))
far.close()
stay(NEAR)
loop = uvloop.new_event_loop()
port = int.from_bytes(near.recv(2), "big")
transport, client = loop.run_until_complete(ws_connect(Asking, f"ws://127.0.0.1:{port}/"))
print("ready", flush=True)
for line in sys.stdin:
    print(loop.run_until_complete(client.measure(int(line))), flush=True)
