import TransportAPI

// Packets without content, and what goes with writing one.
extension MQTTCore {
    mutating func write(_ type: MQTTPacketType, _ context: inout CoreContext) {
        MQTTPacketWriter.bare(type, into: &context.output)
        countWritten(&context)
    }

    mutating func write(_ type: MQTTPacketType, _ packetID: UInt16, _ context: inout CoreContext) {
        MQTTPacketWriter.identified(type, packetID, into: &context.output)
        countWritten(&context)
    }

    mutating func countWritten(_ context: inout CoreContext) {
        context.counters.controlFrames += 1
        keepAlive.lastSent = context.now
    }

    func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, state == .open ? .open : .handshake, sentence)
    }
}
