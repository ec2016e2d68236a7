/// A parser or a core that is run with arbitrary bytes.
struct FuzzTarget: Sendable {
    let name: String
    /// Throws ``FuzzFailure`` unless the bytes end in events or in a typed error. The caller detects traps.
    let run: @Sendable ([UInt8]) throws -> Void

    /// All targets; each has a folder in `Fuzz/Corpora`.
    static let all: [FuzzTarget] = [
        FuzzTarget(name: "endpoint", run: fuzzEndpoint),
        FuzzTarget(name: "percent", run: fuzzPercentEncoding),
        FuzzTarget(name: "configuration", run: fuzzConfiguration),
        FuzzTarget(name: "http", run: fuzzHTTP),
        FuzzTarget(name: "http-server", run: fuzzHTTPServer),
        FuzzTarget(name: "http-body", run: fuzzHTTPBody),
        FuzzTarget(name: "http-response", run: fuzzHTTPResponse),
        FuzzTarget(name: "form-query", run: fuzzFormQuery),
        FuzzTarget(name: "http-session-client", run: fuzzHTTPClientSession),
        FuzzTarget(name: "http-session-request", run: fuzzSessionRequest),
        FuzzTarget(name: "event-stream", run: fuzzEventStream),
        FuzzTarget(name: "stream-cutter", run: fuzzStreamCutter),
        FuzzTarget(name: "deflate-agreement", run: fuzzDeflateAgreement),
        FuzzTarget(name: "ws-frames", run: fuzzWebSocketFrames),
        FuzzTarget(name: "ws-client", run: fuzzWebSocketClient),
        FuzzTarget(name: "ws-server", run: fuzzWebSocketServer),
        FuzzTarget(name: "redirect", run: fuzzRedirection),
        FuzzTarget(name: "cookies", run: fuzzCookies),
        FuzzTarget(name: "proxy", run: fuzzProxy),
        FuzzTarget(name: "socks", run: fuzzSOCKS),
        FuzzTarget(name: "proxy-environment", run: fuzzProxyEnvironment),
        FuzzTarget(name: "utf8", run: fuzzUTF8),
        FuzzTarget(name: "base64", run: fuzzBase64),
        FuzzTarget(name: "mqtt-packets", run: fuzzMQTTPackets),
        FuzzTarget(name: "mqtt-topics", run: fuzzMQTTTopics),
        FuzzTarget(name: "mqtt-client", run: fuzzMQTTClient),
        FuzzTarget(name: "mqtt-broker", run: fuzzMQTTBroker),
        FuzzTarget(name: "mqtt-ws-client", run: fuzzMQTTWebSocketClient),
        FuzzTarget(name: "mqtt-ws-server", run: fuzzMQTTWebSocketServer),
        FuzzTarget(name: "broker", run: fuzzBroker),
        FuzzTarget(name: "stomp-frames", run: fuzzSTOMPFrames),
        FuzzTarget(name: "stomp-client", run: fuzzSTOMPClient),
        FuzzTarget(name: "stomp-server", run: fuzzSTOMPServer),
        FuzzTarget(name: "xmpp-stream", run: fuzzXMPPStream),
        FuzzTarget(name: "xmpp-client", run: fuzzXMPPClient),
        FuzzTarget(name: "xmpp-server", run: fuzzXMPPServer),
        FuzzTarget(name: "tcp", run: fuzzTCP),
        FuzzTarget(name: "udp-datagrams", run: fuzzUDPDatagrams),
        FuzzTarget(name: "udp-listener", run: fuzzUDPListener),
        FuzzTarget(name: "udp-client", run: fuzzUDPClient),
        FuzzTarget(name: "udp-server", run: fuzzUDPServer),
        FuzzTarget(name: "udp-path", run: fuzzUDPPath),
        FuzzTarget(name: "udp-network", run: fuzzUDPNetwork),
        FuzzTarget(name: "session-frames", run: fuzzSessionFrames),
        FuzzTarget(name: "supervisor", run: fuzzSupervisor),
        FuzzTarget(name: "served-session", run: fuzzServedSession),
        FuzzTarget(name: "requests", run: fuzzRequests),
        FuzzTarget(name: "transfers", run: fuzzTransfers),
        FuzzTarget(name: "json", run: fuzzJSON),
        FuzzTarget(name: "protobuf", run: fuzzProtobuf),
        FuzzTarget(name: "xml", run: fuzzXML),
        FuzzTarget(name: "outbox-log", run: fuzzOutboxLog),
        FuzzTarget(name: "netlink", run: fuzzNetlink),
        FuzzTarget(name: "tls", run: fuzzTLS),
        FuzzTarget(name: "dtls", run: fuzzDTLS),
        FuzzTarget(name: "stream-pairs", run: fuzzStreamPairs),
    ]
}

/// A defect that a target has found.
struct FuzzFailure: Error, CustomStringConvertible {
    let description: String
}

/// Throws unless `holds` is true.
func ensure(_ holds: Bool, _ what: @autoclosure () -> String) throws {
    guard holds else { throw FuzzFailure(description: what()) }
}
