import TransportAPI

// What a reliable session writes.

extension ReliableSession {
    /// Takes a message to be sent.
    mutating func send(_ bytes: [UInt8], id: UInt64) -> SendStatus {
        guard sender.pieces.hasRoom(for: bytes.count) else {
            owesRoom = true
            return .blocked
        }
        sender.pieces.append(bytes, id: id)
        return .written
    }

    /// Writes what may leave now.
    mutating func transmit(_ identifier: UInt64, _ context: inout CoreContext) {
        guard farewell == nil else { return }
        if let size = context.refusedDatagram.take() { sender.refused(size, context.now) }
        if receiver.isCreditWorthTelling { received.hurry(context.now) }
        goOnAt = nil
        var left = Self.burst
        while let size = sender.packetSize(context.now) {
            guard left > 0 else {
                goOnAt = context.now
                break
            }
            writePacket(identifier, size, &context)
            left -= 1
        }
        sender.setCreditTimeout(context.now)
        guard let due = received.dueAt, due <= context.now else { return }
        _ = appendHeader(identifier, &context.output)
        _ = appendAcknowledgement(room: Self.packetSize - Self.headerSize, &context)
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    private mutating func writePacket(_ identifier: UInt64, _ size: Int, _ context: inout CoreContext) {
        let number = appendHeader(identifier, &context.output)
        let full = size - Self.headerSize
        var room = full
        if received.dueAt != nil { room -= appendAcknowledgement(room: room - sender.pieces.least(of: full), &context) }
        var written: [ReliablePieces.Piece] = []
        while let piece = sender.pieces.next(room: room, of: full) {
            ReliableFrame.append(piece, of: sender.pieces, to: &context.output)
            sender.pieces.sent(piece)
            written.append(piece)
            room -= piece.wireSize
        }
        if written.isEmpty {
            context.output.append(ReliableFrame.Kind.probe.rawValue)
            context.counters.controlFrames &+= 1
            room -= 1
        }
        context.endDatagram()
        sender.sent(SentPacket(number: number, sentAt: context.now, size: size - room, pieces: written))
    }

    private mutating func appendHeader(_ identifier: UInt64, _ output: inout ByteBuffer) -> UInt64 {
        let number = sender.takeNumber()
        output.append(integer: Datagram.Kind.packet.rawValue)
        output.append(integer: identifier)
        output.append(integer: number)
        return number
    }

    private mutating func appendAcknowledgement(room: Int, _ context: inout CoreContext) -> Int {
        let size = ReliableFrame.append(
            acknowledgementOf: received.ranges,
            delay: received.delay(context.now),
            credit: receiver.credit,
            room: room,
            to: &context.output
        )
        guard size > 0 else { return 0 }
        received.acknowledged()
        receiver.toldCredit()
        return size
    }
}
