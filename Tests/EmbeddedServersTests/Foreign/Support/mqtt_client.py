"""Eclipse Paho as a client of an MQTT 3.1.1 broker. Arguments: port, "tcp" or "websockets", QoS, tests."""

import queue
import socket
import struct
import sys

import paho.mqtt.client as mqtt

TIMEOUT = 30
PORT = int(sys.argv[1])
CARRIER = sys.argv[2]
QOS = int(sys.argv[3])


class Client(mqtt.Client):
    """A connected client that puts every event into a queue."""

    def __init__(self, name="", clean=True, will=None):
        super().__init__(
            mqtt.CallbackAPIVersion.VERSION2,
            name,
            clean_session=clean,
            transport=CARRIER,
            reconnect_on_failure=False,
        )
        self.connects, self.ends, self.inbox, self.grants, self.logs = (queue.Queue() for _ in range(5))
        self.on_connect = lambda _1, _2, flags, reason, _3: self.connects.put((flags.session_present, reason.value))
        self.on_disconnect = lambda _1, _2, flags, _3, _4: self.ends.put(flags.is_disconnect_packet_from_server)
        self.on_message = lambda _1, _2, message: self.inbox.put(message)
        self.on_subscribe = lambda _1, _2, _3, reasons, _4: self.grants.put([reason.value for reason in reasons])
        self.on_unsubscribe = lambda _1, _2, _3, _4, _5: self.grants.put("unsubscribed")
        self.on_log = lambda _1, _2, _3, text: self.logs.put(text)
        if will:
            self.will_set(*will, qos=QOS, retain=True)
        self.connect("127.0.0.1", PORT)
        self.loop_start()
        self.had_session, reason = self.connects.get(timeout=TIMEOUT)
        assert reason == 0, f"refused: {reason}"

    def take(self):
        message = self.inbox.get(timeout=TIMEOUT)
        return message.topic, message.payload, message.qos, message.retain

    def listen(self, *topics):
        self.subscribe([(topic, QOS) for topic in topics])
        assert self.grants.get(timeout=TIMEOUT) == [QOS] * len(topics)

    def give(self, topic, payload, retain=False):
        self.publish(topic, payload, QOS, retain).wait_for_publish(TIMEOUT)
        if QOS == 0:
            # At QoS 0 there is no acknowledgement, but PINGRESP comes after the broker has the message.
            self.ping()

    def ping(self):
        self._send_pingreq()
        while "PINGRESP" not in self.logs.get(timeout=TIMEOUT):
            pass

    def leave(self):
        self.disconnect()
        self.ends.get(timeout=TIMEOUT)
        self.loop_stop()

    def crash(self):
        """Resets the connection without DISCONNECT."""
        # Over WebSocket, Paho wraps the socket in an object that would send a close frame.
        own = getattr(self.socket(), "_socket", self.socket())
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        own.shutdown(socket.SHUT_RDWR)
        self.ends.get(timeout=TIMEOUT)
        self.loop_stop()


def sizes():
    """Payloads around the steps of the remaining length (MQTT 3.1.1, section 2.2.3)."""
    reader, writer = Client(), Client()
    reader.listen("size/+")
    for size in [0, 1, 110, 127, 128, 16370, 16383, 16384, 2097140, 2097152]:
        payload = bytes(index * 31 & 0xFF for index in range(size))
        writer.give(f"size/{size}", payload)
        topic, received, qos, retain = reader.take()
        assert (topic, qos, retain) == (f"size/{size}", QOS, False), (topic, qos, retain)
        assert received == payload, f"{size} bytes came as {len(received)}"


def burst():
    reader, writer = Client(), Client()
    reader.listen("burst")
    sent = [writer.publish("burst", str(number), QOS) for number in range(1000)]
    for number in range(1000):
        assert reader.take() == ("burst", str(number).encode(), QOS, False)
    for each in sent:
        each.wait_for_publish(TIMEOUT)


def retained():
    writer = Client()
    writer.give("état/ü", "alt", retain=True)
    writer.give("état/ü", "neu", retain=True)
    reader = Client()
    reader.listen("état/+")
    assert reader.take() == ("état/ü", b"neu", QOS, True)
    # Another SUBSCRIBE makes the broker send it again (section 3.8.4).
    reader.listen("état/+")
    assert reader.take() == ("état/ü", b"neu", QOS, True)
    writer.give("état/ü", "", retain=True)
    assert reader.take() == ("état/ü", b"", QOS, False)
    late = Client()
    late.listen("état/#")
    writer.give("état", "live")
    assert late.take() == ("état", b"live", QOS, False)


def wills():
    watcher = Client()
    watcher.listen("gone/#")
    Client(will=("gone/polite", "no")).leave()
    Client(will=("gone/crashed", "yes")).crash()
    assert watcher.take() == ("gone/crashed", b"yes", QOS, False)
    late = Client()
    late.listen("gone/#")
    assert late.take() == ("gone/crashed", b"yes", QOS, True)


def session():
    writer = Client()
    first = Client("ann", clean=False)
    assert not first.had_session
    first.listen("for/ann")
    first.crash()
    for number in range(50):
        writer.give("for/ann", str(number))
    again = Client("ann", clean=False)
    assert again.had_session
    if QOS > 0:
        for number in range(50):
            assert again.take() == ("for/ann", str(number).encode(), QOS, False)
    writer.give("for/ann", "live")
    assert again.take()[1] == b"live"
    again.leave()
    # A clean session discards the former one (section 3.1.2.4).
    clean = Client("ann", clean=True)
    assert not clean.had_session
    clean.listen("other")
    writer.give("for/ann", "lost")
    writer.give("other", "seen")
    assert clean.take()[1] == b"seen"


def takeover():
    first = Client("ann")
    second = Client("ann")
    first.ends.get(timeout=TIMEOUT)
    second.listen("t")
    second.give("t", "alive")
    assert second.take()[1] == b"alive"


def unsubscribing():
    client = Client()
    client.listen("a/+", "b")
    client.unsubscribe(["a/+", "never"])
    assert client.grants.get(timeout=TIMEOUT) == "unsubscribed"
    client.give("a/x", "not wanted")
    client.give("b", "wanted")
    assert client.take()[1] == b"wanted"


def ping():
    Client().ping()


for test in sys.argv[4:]:
    globals()[test]()
    print(f"{test}: ok", flush=True)
