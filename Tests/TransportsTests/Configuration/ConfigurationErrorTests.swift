import Testing
import TransportAPI
import Transports

private let attempt = #"allowed is "10ms" to "1h""#
private let intervals = #"allowed is "1s" to "24h", "automatic", or "off""#
private let jitters = #"allowed is "none", "equal", "full""#
private let policies = #"allowed is "wait", "refuse-newest", "drop-oldest""#

@Suite("Errors in configuration files")
struct ConfigurationErrorTests {
    @Test(
        "The error of an unknown key has its line, its path and the nearest known key",
        arguments: [
            (
                "\"keepalive\": {\n\"intervall\": \"3m\"}",
                #"config.json:3: "keepalive.intervall" is not known; did you mean "interval"? "#
                    + "allowed are interval, timeout, idle-only, payload, answer, adaptive"
            ),
            (
                "\"delivery\": {\"zebra\": 1}",
                #"config.json:2: "delivery.zebra" is not known; allowed are mode, window, acknowledgement-reminder"#
            ),
            (
                "\"keepalive\": {\"adaptive\":\n{\"minimun\": 1}}",
                #"config.json:3: "keepalive.adaptive.minimun" is not known; did you mean "minimum"? "#
                    + "allowed are minimum, maximum, resolution"
            ),
            (
                "\"line\\nbreak\": 1",
                #"config.json:2: "line\nbreak" is not known; allowed are endpoints, codec, headers, token, greeting, connect-timeout, "#
                    + "stable-after, maximum-attempts, maximum-elapsed, backoff, keepalive, outbox, delivery, requests, message-buffer, "
                    + "message-buffer-bytes"
            ),
        ] as [(String, String)]
    )
    func unknown(keys: String, expected: String) {
        #expect(refusal(with: keys) == expected)
    }

    @Test(
        "The error of a wrong value shows the value and the allowed values",
        arguments: [
            (
                #""codec": "protobuff""#,
                #""codec" is "protobuff"; did you mean "protobuf"? allowed is "json", "protobuf", "xml""#
            ),
            (
                #""keepalive": {"payload": "heart"}, "delivery": {"mode": "session"}"#,
                #""keepalive.payload" is not allowed with "delivery.mode": "session"; "#
                    + "a session has its own probe"
            ),
            (#""codec": null"#, #""codec" is null; allowed is "json", "protobuf", "xml""#),
            (
                #""connect-timeout": 10"#,
                #""connect-timeout" is 10; its unit is missing ("10s" are seconds); "# + attempt
            ),
            (
                #""connect-timeout": "10""#,
                #""connect-timeout" is "10"; its unit is missing ("10s" are seconds); "# + attempt
            ),
            (
                #""connect-timeout": "2sec""#,
                #""connect-timeout" is "2sec"; "sec" is no unit; the units are ns, us, ms, s, m, h; "# + attempt
            ),
            (#""connect-timeout": "0s""#, #""connect-timeout" is "0s"; allowed is "10ms" to "1h""#),
            (#""stable-after": "-1s""#, #""stable-after" is "-1s"; allowed is "0s" to "24h""#),
            (#""maximum-attempts": 0"#, #""maximum-attempts" is 0; allowed is 1 to 1000000, or null"#),
            (#""maximum-attempts": 1.5"#, #""maximum-attempts" is 1.5; allowed is 1 to 1000000, or null"#),
            (#""maximum-attempts": -1e300"#, #""maximum-attempts" is -1e300; allowed is 1 to 1000000, or null"#),
            (#""maximum-elapsed": "off""#, #""maximum-elapsed" is "off"; allowed is "10ms" to "1000h", or null"#),
            (
                #""delivery": "session""#,
                #""delivery" is "session"; allowed is an object, such as {"mode": "session"}"#
            ),
            (#""delivery": "sesame""#, #""delivery" is "sesame"; allowed is an object"#),
            (
                #""outbox": "drop-oldest""#,
                #""outbox" is "drop-oldest"; allowed is an object, such as {"when-full": "drop-oldest"}"#
            ),
            (#""keepalive": 3"#, #""keepalive" is 3; allowed is an object"#),
            (#""keepalive": {"interval": "of"}"#, #""keepalive.interval" is "of"; did you mean "off"? "# + intervals),
            (#""keepalive": {"interval": null}"#, #""keepalive.interval" is null; "# + intervals),
            (#""keepalive": {"timeout": "0s"}"#, #""keepalive.timeout" is "0s"; allowed is "100ms" to "10m""#),
            (#""keepalive": {"idle-only": 1}"#, #""keepalive.idle-only" is 1; allowed is true, false, "on" or "off""#),
            (
                #""keepalive": {"idle-only": "no"}"#,
                #""keepalive.idle-only" is "no"; did you mean "off"? allowed is true, false, "on" or "off""#
            ),
            (#""keepalive": {"payload": ""}"#, #""keepalive.payload" is ""; allowed is a text of 1 to 4096 bytes"#),
            (
                #""keepalive": {"adaptive": "maybe"}"#,
                #""keepalive.adaptive" is "maybe"; allowed is true, false, "on" or "off", or an object"#
            ),
            (#""backoff": {"jitter": "ful"}"#, #""backoff.jitter" is "ful"; did you mean "full"? "# + jitters),
            (#""backoff": {"multiplier": 0.99}"#, #""backoff.multiplier" is 0.99; allowed is 1 to 10"#),
            (#""backoff": {"multiplier": 10.01}"#, #""backoff.multiplier" is 10.01; allowed is 1 to 10"#),
            (#""outbox": {"count": 1048577}"#, #""outbox.count" is 1048577; allowed is 1 to 1048576"#),
            (#""outbox": {"bytes": 0}"#, #""outbox.bytes" is 0; allowed is 1 to 1073741824, or with a unit ("64KiB")"#),
            (
                #""outbox": {"bytes": "4KB"}"#,
                #""outbox.bytes" is "4KB"; "KB" is no unit; the units are KiB, MiB, GiB, TiB, kB, MB, GB, TB, B; "#
                    + #"allowed is 1 to 1073741824, or with a unit ("64KiB")"#
            ),
            (#""outbox": {"when-full": []}"#, #""outbox.when-full" is an array; "# + policies),
            (#""delivery": {"window": 1025}"#, #""delivery.window" is 1025; allowed is 1 to 1024"#),
            (#""delivery": {"mode": {}}"#, #""delivery.mode" is an object; allowed is "plain", "session""#),
            (#""headers": []"#, #""headers" is an array; allowed is an object of at most 64 strings"#),
            (#""headers": {"a": 1}"#, #""headers.a" is a number; allowed is a string"#),
            (#""greeting": "a""#, #""greeting" is a string; allowed is a list of 1 to 16 texts of 1 to 65536 bytes"#),
            (
                #""greeting": []"#,
                #""greeting" has 0 elements; allowed is a list of 1 to 16 texts of 1 to 65536 bytes"#
            ),
            (#""greeting": ["a", ""]"#, #""greeting[1]" is a string; allowed is a text of 1 to 65536 bytes"#),
        ] as [(String, String)]
    )
    func values(keys: String, expected: String) {
        #expect(refusal(with: keys) == "config.json:2: \(expected)")
    }

    @Test(
        "The error of keys that contradict each other names them",
        arguments: [
            (
                #"{"policy": "fixed", "delay": "1s", "jitter": "full"}"#,
                #""backoff.jitter" belongs to the policy "exponential", not to "fixed"; allowed are policy, delay"#
            ),
            (
                #"{"delay": "1s"}"#,
                #""backoff.delay" belongs to the policy "fixed", not to "exponential"; "#
                    + "allowed are policy, initial, maximum, multiplier, jitter"
            ),
            (#"{"policy": "fixed"}"#, #""backoff.delay" is missing; allowed is "0s" to "24h""#),
            (#"{"policy": "fixed", "delay": "soon"}"#, #""backoff.delay" is "soon"; allowed is "0s" to "24h""#),
            (
                #"{"policy": "schedule"}"#,
                #""backoff.delays" is missing; allowed is a list of 1 to 100 delays, "0s" to "24h""#
            ),
            (
                #"{"policy": "schedule", "delays": []}"#,
                #""backoff.delays" has 0 elements; allowed is a list of 1 to 100 delays, "0s" to "24h""#
            ),
            (
                #"{"policy": "schedule", "delays": ["1s", 2]}"#,
                #""backoff.delays[1]" is 2; its unit is missing ("2s" are seconds); allowed is "0s" to "24h""#
            ),
            (
                #"{"initial": "30s"}"#,
                #""backoff.initial" makes the longest delay, "20s", shorter than the first, "30s""#
            ),
        ] as [(String, String)]
    )
    func backoff(json: String, expected: String) {
        #expect(refusal(with: "\"backoff\": \(json)") == "config.json:2: \(expected)")
    }

    @Test("A keepalive that contradicts itself is refused")
    func keepalive() {
        #expect(
            refusal(with: #""keepalive": {"answer": "x"}"#)
                == #"config.json:2: "keepalive.answer" has no meaning without "payload" beside it"#
        )
        #expect(
            refusal(with: "\"keepalive\": {\"interval\": \"off\",\n\"adaptive\": true}")
                == #"config.json:3: "keepalive.adaptive" searches an interval, but "interval" beside it is "off""#
        )
        #expect(
            refusal(with: #""keepalive": {"adaptive": {"minimum": "20m"}}"#)
                == #"config.json:2: "keepalive.adaptive.minimum" makes the longest interval, "15m", "#
                + #"shorter than the shortest, "20m""#
        )
    }

    @Test("A file is refused if it has no endpoints or is not an object")
    func missing() {
        #expect(refusal("\n{}") == #"config.json:2: "endpoints" is missing; allowed is a list of 1 to 64 URLs"#)
        #expect(
            refusal(#"{"endpoints": []}"#)
                == #"config.json:1: "endpoints" has 0 elements; allowed is a list of 1 to 64 URLs"#
        )
        #expect(
            refusal(#"{"endpoints": "tcp://a"}"#)
                == #"config.json:1: "endpoints" is a string; allowed is a list of 1 to 64 URLs"#
        )
        #expect(refusal("[]") == "config.json:1: the file is an array; allowed is an object")
    }

    @Test(
        "The error of an unusable endpoint has the line of its URL",
        arguments: [
            (
                "tpc://b",
                #"scheme is "tpc"; did you mean "tcp"? allowed is "tcp", "ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp", "http", "#
                    + #""tls", "wss", "mqtts", "mqtt+wss", "stomp+tls", "stomp+wss", "xmpps", "https", "udp", "dtls", "memory""#
            ),
            ("tcp://b:x", "port is not a number from 0 to 65535"),
            ("mqtt://b?qos=7", #"qos is "7"; allowed is "0", "1", "2""#),
            ("tcp://b?framing=u16&inbox=0", #"inbox is "0"; allowed is 1 to 1048576"#),
        ] as [(String, String)]
    )
    func endpoints(url: String, expected: String) {
        #expect(
            refusal("{\"endpoints\": [\n\"tcp://a\",\n\"\(url)\"]}") == "config.json:3: \"endpoints[1]\": \(expected)"
        )
    }

    @Test(
        "No error quotes text that may hold a password",
        arguments: [
            #"{"endpoints": "ws://ann:secret@host"}"#, #"{"endpoints": [["ws://ann:secret@host"]]}"#,
            #"{"endpoints": ["ws//ann:secret@host"]}"#, #"{"endpoints": ["ws://ann:secret@ho st"]}"#,
            #"{"endpoints": ["ws://a"], "headers": "secret"}"#,
            #"{"endpoints": ["ws://a"], "greeting": "secret"}"#,
            #"{"endpoints": ["ws://a"], "greeting": {"secret": 1}}"#,
            #"{"endpoints": ["ws://a"], "headers": {"A": ["secret"]}}"#,
            #"{"endpoints": ["ws://a"], "headers": {"A": " secret"}}"#, #"{"password": "secret"}"#,
        ]
    )
    func secrets(json: String) {
        #expect(refusal(json)?.contains("secret") == false)
    }

    @Test("A session over a broker that acknowledges nothing is refused, in a file and in code")
    func sessionWithoutAcknowledgements() throws {
        let session = #""delivery": {"mode": "session"}"#
        let advice = "write qos=1 into the URL over MQTT, or receipt=on over STOMP, or set delivery.mode to plain"
        for url in ["mqtt://b", "mqtt+ws://b?qos=0", "mqtts://b?subscribe=a", "stomp://b"] {
            let text = try #require(refusal("{\"endpoints\": [\"mqtt://a?qos=1\",\n\"\(url)\"], \(session)}"))
            #expect(
                text.hasPrefix(#"config.json:2: "endpoints[1]" asks the broker for no acknowledgements, "#),
                "\(text)"
            )
            #expect(text.contains(advice), "\(text)")
        }
        var settings = SupervisorConfiguration()
        settings.delivery.mode = .session
        let error = #expect(throws: TransportError.self) { try Supervisor("mqtt://127.0.0.1", settings) }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains(advice) == true)
    }

    @Test("A session over both servers and brokers is refused, in a file and in code")
    func mixedSession() throws {
        let session = #""delivery": {"mode": "session"}"#
        let allowed = #"allowed beside "delivery.mode": "session" are servers only, or brokers only"#
        #expect(
            refusal("{\"endpoints\": [\"tcp://a\", \"ws://b\",\n\"mqtt://c?qos=1\"], \(session)}")
                == #"config.json:2: "endpoints[2]" leads to a broker, and "endpoints[0]" to a server; "# + allowed
        )
        #expect(
            refusal("{\"endpoints\": [\"mqtt+ws://a?qos=1\",\n\"udp://b\"], \(session)}")
                == #"config.json:2: "endpoints[1]" leads to a server, and "endpoints[0]" to a broker; "# + allowed
        )
        for urls in [#""mqtt://a?qos=1", "mqtt+ws://b?qos=1""#, #""tcp://a", "ws://b", "udp://c", "memory://d""#] {
            #expect(refusal("{\"endpoints\": [\(urls)], \(session)}") == nil)
        }
        var mixed = try configuration(#"{"endpoints": ["mqtt://a", "ws://b"]}"#)
        #expect(try mixed.transports().count == 2)
        mixed.supervisor.delivery.mode = .session
        let error = #expect(throws: TransportError.self) { try Supervisor(mixed) }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains(allowed) == true)
    }

    @Test("A registry without a transport refuses its endpoints")
    func registry() throws {
        let json = #"{"endpoints": ["tcp://a"]}"#.utf8
        let error = #expect(throws: TransportError.self) {
            try TransportConfiguration(json: json, registry: TransportRegistry([.memory]))
        }
        #expect(
            error?.reason
                == #"configuration:1: "endpoints[0]": scheme is "tcp"; allowed is "memory" "#
                + "(another transport must be in the registry of this call)"
        )
    }

    @Test("Each header is checked, headers need a WebSocket, and no error quotes their values")
    func headers() {
        func file(_ headers: String) -> String? {
            refusal("{\"endpoints\": [\"ws://a\"],\n\"headers\": {\"A\": \"x\",\n\(headers)}}")
        }
        #expect(
            file(#""Host": "b""#)
                == #"config.json:3: "headers.Host": headers may not set 'Host', which the handshake sets"#
        )
        #expect(
            file(#""B": "secret\r\nC: d""#)
                == #"config.json:3: "headers.B": headers give 'B' a control character or white space around its value"#
        )
        #expect(file(#""a b": "c""#)?.hasPrefix(#"config.json:3: "headers.a b": "#) == true)
        #expect(
            refusal("{\"endpoints\": [\"tcp://a\", \"ws://ann@b\"],\n\"headers\": {\"authorization\": \"x\"}}")
                == #"config.json:2: "headers.authorization" is not allowed with an endpoint that has a user, "#
                + "because the user is sent in the same header"
        )
        let many = String(repeating: "header=a:b&", count: 90)
        #expect(
            refusal("{\"endpoints\": [\"ws://a?\(many)\"],\n\"headers\": {\"A\": \"b\"}}")?
                .hasPrefix("config.json:2: \"headers") == true
        )
        #expect(
            refusal(with: #""headers": {"A": "b"}"#)
                == #"config.json:2: "headers" are for WebSocket, but no endpoint uses WebSocket"#
        )
    }
}
