import TransportAPI

/// One side of a connection with MQTT 3.1.1 (OASIS standard, 29 October 2014): ``MQTTClientCore`` or
/// ``MQTTServerCore``.
///
/// Both sides publish at QoS 0, 1 and 2. Nothing is sent twice over one connection, as the specification requires. Their
/// ``MQTTFlow`` has everything that both do in the same way.
package protocol MQTTCore: CarriedCore {
    /// The packets of the connection.
    var flow: MQTTFlow { get set }
}

extension MQTTCore {
    package static var carriage: WebSocketCarriage { .mqtt }
    package mutating func enterWebSocket() { flow.isInsideWebSocket = true }
    package mutating func noteArrival(at now: Instant) { flow.times.lastReceived = now }
    package mutating func noteWaiting(_ bytes: Int) { flow.waiting = bytes }
    package var expected: ForeignProtocol.Expected? { .mqtt }
    /// The session that outlives the connection; `nil` if there is none.
    package var session: MQTTSession? { flow.session }
    /// The same session, unless a later connection has taken it over; `nil` then.
    package var live: MQTTSession? { flow.live }

    package mutating func connectionEnded() { flow.reader.begun = nil }

    /// The error for first bytes that are no packet, which can be of another protocol.
    func foreign(
        _ error: TransportError,
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) -> TransportError {
        // The handshake of WebSocket excludes other protocols.
        guard !flow.isInsideWebSocket else { return error }
        let other = input.withUnsafeReadableBytes { ForeignProtocol($0) }
        let isEncrypted = context.isEncrypted
        if Self.role == .server, other.isForeign(to: .mqtt) {
            other.answer(expected: .mqtt, isEncrypted: isEncrypted, to: &context.output, unixTime: context.unixTime)
        }
        return other.error(insteadOf: error, expected: .mqtt, by: Self.role, isEncrypted: isEncrypted)
    }

    func violation(_ sentence: String) -> TransportError { flow.violation(sentence) }
}
