"""stomp.py as a client of a STOMP 1.2 broker. Arguments: port, tests."""

import queue
import sys
import time

import stomp

TIMEOUT = 30
PORT = int(sys.argv[1])


class Client(stomp.ConnectionListener):
    """A connected client that puts every event into a queue."""

    def __init__(self, heartbeats=(0, 0), connect=True, **credentials):
        self.messages, self.receipts, self.errors, self.ends = (queue.Queue() for _ in range(4))
        self.beats = 0
        self.connection = stomp.Connection12(
            [("127.0.0.1", PORT)],
            heartbeats=heartbeats,
            reconnect_attempts_max=1,
            auto_content_length=True,
            auto_decode=False,
        )
        self.connection.set_listener("", self)
        if connect:
            self.connection.connect(wait=True, **credentials)

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame):
        self.errors.put(frame)

    def on_heartbeat(self):
        self.beats += 1

    def on_disconnected(self):
        self.ends.put(None)

    def subscribe(self, destination, number, ack="auto"):
        self.connection.subscribe(destination, number, ack, headers={"receipt": f"subscribe-{number}"})
        assert self.receipts.get(timeout=TIMEOUT) == f"subscribe-{number}"

    def send(self, destination, body, receipt=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if receipt:
            headers["receipt"] = receipt
        self.connection.send(destination, body, headers=headers)
        if receipt:
            assert self.receipts.get(timeout=TIMEOUT) == receipt

    def take(self, body=None):
        frame = self.messages.get(timeout=TIMEOUT)
        assert body is None or frame.body == body, f"{frame.body} instead of {body}"
        return frame

    def leave(self):
        self.connection.disconnect(receipt="bye")
        assert self.receipts.get(timeout=TIMEOUT) == "bye"


def topics():
    """Each subscriber gets each message once, with the headers of the sender, until it unsubscribes."""
    readers, writer = [Client(), Client()], Client()
    for reader in readers:
        reader.subscribe("/topic/a", 1)
    writer.send("/topic/a", b"hello", "1", content_type="text/plain", price="5")
    for reader in readers:
        frame = reader.take(b"hello")
        assert frame.headers["destination"] == "/topic/a" and frame.headers["subscription"] == "1"
        assert frame.headers["price"] == "5" and frame.headers["content-type"] == "text/plain"
    readers[0].connection.unsubscribe(1, headers={"receipt": "u"})
    assert readers[0].receipts.get(timeout=TIMEOUT) == "u"
    writer.send("/topic/a", b"again", "2")
    readers[1].take(b"again")
    assert readers[0].messages.empty()
    for client in readers + [writer]:
        client.leave()


def wildcards():
    """Two subscriptions that match bring a message twice."""
    client = Client()
    client.subscribe("/topic/rooms.*", 1)
    client.subscribe("/topic/rooms.1", 2)
    client.send("/topic/rooms.1", b"x", "1")
    assert sorted(client.take(b"x").headers["subscription"] for _ in range(2)) == ["1", "2"]
    client.leave()


def bodies():
    """Bodies of any bytes arrive as they are."""
    client = Client()
    client.subscribe("/queue/bodies", 1)
    for body in [b"", b"\0", b"a\0b\0", bytes(range(256)) * 200, "Gr\u00fc\u00dfe \U0001f600".encode(), b"\n\n\0\n"]:
        client.send("/queue/bodies", body, "r")
        client.take(body)
    client.leave()


def escapes():
    """Headers of any text arrive as they are."""
    client = Client()
    client.subscribe("/queue/escapes", 1)
    for value in ["a:b", "line\nline", "return\r", "back\\slash", "\\n", " spaces ", "Gr\u00fc\u00dfe", "a\\cb:c\n\\\\"]:
        client.send("/queue/escapes", b"x", "r", special=value)
        assert client.take().headers["special"] == value, value
    client.leave()


def acknowledgements():
    """What was not acknowledged comes again to the next client."""
    for mode, names, left in [("client", [1], [2]), ("client-individual", [1], [0, 2])]:
        destination = f"/queue/{mode}"
        writer, reader = Client(), Client()
        for number in range(3):
            writer.send(destination, b"%d" % number, f"{number}")
        reader.subscribe(destination, 1, mode)
        frames = [reader.take(b"%d" % number) for number in range(3)]
        for number in names:
            reader.connection.ack(frames[number].headers["ack"], receipt="ack")
            assert reader.receipts.get(timeout=TIMEOUT) == "ack"
        reader.leave()
        other = Client()
        other.subscribe(destination, 1)
        for number in left:
            assert other.take(b"%d" % number).headers["redelivered"] == "true"
        writer.send(destination, b"end")
        other.take(b"end")
        other.leave()
        writer.leave()


def refusals():
    """A message comes again after NACK."""
    client = Client()
    client.send("/queue/refusals", b"x", "1")
    client.subscribe("/queue/refusals", 1, "client-individual")
    client.connection.nack(client.take(b"x").headers["ack"])
    frame = client.take(b"x")
    assert frame.headers["redelivered"] == "true"
    client.connection.ack(frame.headers["ack"], receipt="ack")
    assert client.receipts.get(timeout=TIMEOUT) == "ack"
    client.leave()


def burst():
    """Many messages keep their order."""
    client = Client()
    client.subscribe("/topic/burst", 1)
    for number in range(2000):
        client.send("/topic/burst", b"%d" % number)
    for number in range(2000):
        client.take(b"%d" % number)
    client.leave()


def heartbeats():
    """Both sides keep the connection alive, and a client that falls silent is noticed."""
    client = Client(heartbeats=(1000, 1000))
    time.sleep(4.5)
    assert client.beats >= 2 and client.ends.empty(), f"{client.beats} heart-beats"
    client.send("/queue/alive", b"x", "1")
    client.leave()


def errors():
    """What the broker cannot do is an ERROR with the receipt, and ends the connection."""
    client = Client()
    client.connection.begin("t", headers={"receipt": "b"})
    frame = client.errors.get(timeout=TIMEOUT)
    assert "transactions" in frame.headers["message"] and frame.headers["receipt-id"] == "b", frame
    client.ends.get(timeout=TIMEOUT)


def login():
    """A wrong password is refused with an ERROR, and the right one is accepted."""
    wrong = Client(connect=False)
    try:
        wrong.connection.connect("ann", "guess", wait=True)
        raise AssertionError("the broker accepts a wrong password")
    except stomp.exception.ConnectFailedException:
        assert wrong.errors.get(timeout=TIMEOUT).headers["message"]
    Client(username="ann", passcode="secret").leave()


for test in sys.argv[2:]:
    globals()[test]()
    print(f"{test}: ok", flush=True)
