import TransportAPI

// What a session writes. Nothing here allocates once the output has grown to its size.

extension UDPCore {
    mutating func appendDataHeader(roomFor size: Int, to output: inout ByteBuffer) {
        let (identifier, sequence) = (connectionID.bigEndian, nextSequence.bigEndian)
        nextSequence &+= 1
        _ = output.write(minimum: Datagram.dataHeaderSize &+ size) { target in
            target.storeBytes(of: Datagram.Kind.data.rawValue.bigEndian, as: UInt32.self)
            target.storeBytes(of: identifier, toByteOffset: Datagram.wordSize, as: UInt64.self)
            target.storeBytes(of: sequence, toByteOffset: Datagram.identifiedSize, as: UInt32.self)
            return Datagram.dataHeaderSize
        }
    }

    func write(_ kind: Datagram.Kind, _ identifier: UInt64, _ number: UInt64?, _ context: inout CoreContext) {
        Datagram.append(kind, identifier, number, to: &context.output)
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    func writeBye(_ reason: CloseReason, _ context: inout CoreContext) {
        guard !configuration.isPlain else { return }
        Datagram.append(.bye, connectionID, to: &context.output)
        context.output.append(integer: reason.code ?? Goodbye.normal)
        context.output.append(utf8: Goodbye.shortened(reason.text))
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }
}
