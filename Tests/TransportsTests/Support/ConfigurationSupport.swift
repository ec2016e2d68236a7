import Testing
import TransportAPI
import Transports

/// Reads the text as a file called config.json.
func configuration(_ json: String) throws(TransportError) -> TransportConfiguration {
    try TransportConfiguration(json: json.utf8, label: "config.json")
}

/// Reads a file with an endpoint. The further keys start in its second line.
func configuration(with keys: String) throws(TransportError) -> TransportConfiguration {
    try configuration("{\"endpoints\": [\"tcp://host\"],\n\(keys)\n}")
}

/// The error with which a file is refused, or `nil` if it is accepted.
func refusal(_ json: String) -> String? {
    do throws(TransportError) {
        _ = try configuration(json)
        return nil
    } catch {
        #expect(error.code == .invalidConfiguration && error.phase == .configure)
        return error.reason
    }
}

/// The error with which a file with an endpoint and these further keys is refused.
func refusal(with keys: String) -> String? { refusal("{\"endpoints\": [\"tcp://host\"],\n\(keys)\n}") }

/// A file that uses every key, except those of other backoff policies.
let completeFile = #"""
    {
      "endpoints": ["ws://chat.example/socket", "tcp://chat.example:7000?framing=u16"],
      "codec": "protobuf",
      "headers": {"Authorization": "Bearer x", "X-Client": "caf\u0065 \"1\""},
      "greeting": ["login ann", "{\"join\": 7}\u0000"],
      "connect-timeout": "5s",
      "stable-after": "1m",
      "maximum-attempts": 8,
      "maximum-elapsed": "10m",
      "backoff": {"policy": "exponential", "initial": "250ms", "maximum": "30s", "multiplier": 1.5, "jitter": "equal"},
      "keepalive": {
        "interval": "4m", "timeout": "15s", "idle-only": false, "payload": "heart", "answer": "heart-ack",
        "adaptive": {"minimum": "1m", "maximum": "20m", "resolution": "30s"}
      },
      "outbox": {"count": 50, "bytes": 65536, "age": "1h", "when-full": "drop-oldest", "store": "file:a b/c?sync=5s"},
      "delivery": {"mode": "plain", "window": 16}, "message-buffer": 64
    }
    """#
