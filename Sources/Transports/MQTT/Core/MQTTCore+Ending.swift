import TransportAPI

// The end of a link: the far side's, and this one's goodbye.
extension MQTTCore {
    package mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch state {
        case .closing, .closed:
            state = .closed
            hasDeferred = false
            return .closed(closeReason)
        case .idle, .connecting, .subscribing:
            throw TransportError(.closedByPeer, .handshake, "the far side closed the connection during the handshake")
        case .open:
            // A broker has no DISCONNECT to send: closing the connection is its only goodbye.
            let isWithinPacket = unread > 0 || reader.oversized != nil
            guard isClient, !isWithinPacket else {
                let missing = isWithinPacket ? "in the middle of a packet" : "without DISCONNECT"
                throw TransportError(.connectionLost, .open, "the far side closed the connection \(missing)")
            }
            state = .closed
            return .closed(CloseReason(.peer, text: "the broker closed the connection"))
        }
    }

    package mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        guard state != .closing, state != .closed else { return }
        if isClient && state != .idle { write(.disconnect, &context) }
        closeReason = reason
        state = .closing
        hasDeferred = true
        reader.accepted = MQTTPacketTypes()
    }

    package mutating func linkEnded() {
        reader.begun = nil
    }
}
