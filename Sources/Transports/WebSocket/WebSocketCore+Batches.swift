import TransportAPI

// Messages by the batch: whole frames in a row, masked or unmasked on their way into the batch or out of it.
extension WebSocketCore {
    /// Moves messages of one frame each that have come whole, up to anything else: a control frame, a part, what is compressed, or
    /// what is wrong.
    public mutating func readMessages(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext,
        into batch: inout MessageBatch,
        atMost count: Int
    ) -> Int {
        phase == .open ? reader.takeMessages(from: &input, into: &batch, atMost: count) : 0
    }

    /// Writes one frame for each message, and stops before text that is not UTF-8. Writes none where messages are compressed or
    /// fragmented, or if one of them may be too long or has properties.
    public mutating func writeMessages(
        of batch: borrowing MessageBatch,
        from cursor: inout MessageBatch.Cursor,
        room: Int,
        _ context: inout CoreContext
    ) {
        guard phase == .open, deflation == nil, configuration.fragmentSize == nil,
            batch.longest <= configuration.maximumMessageSize, !batch.hasProperties
        else { return }
        let before = context.output.count
        batch.forEach(from: &cursor) { bytes, kind in
            let written = context.output.count - before
            guard written == 0 || written + FrameHeader.maximumSize + bytes.count <= room else { return false }
            guard kind == .binary || UTF8Validator.isValid(bytes) else { return false }
            FrameWriter.write(
                kind == .text ? .text : .binary,
                bytes,
                maskKey: maskKey(&context),
                to: &context.output
            )
            return true
        }
    }
}

extension FrameReader {
    /// Moves messages into `batch` that lie whole in the input, in one frame each that is not compressed, at most `count`, and
    /// returns how many. What else is there, be it wrong or not, is left to ``next(_:)``.
    mutating func takeMessages(
        from input: inout ByteBuffer,
        into batch: inout MessageBatch,
        atMost count: Int
    ) -> Int {
        guard kind == nil, !isWithinFrame, !isWhole, !isDiscarding else { return 0 }
        var taken = 0
        while taken < count, let header = try? readHeader(input), header.isFinal, header.reservedBits == 0,
            header.opcode == .binary || header.opcode == .text, header.length <= maximumMessageSize,
            input.count - header.size >= header.length
        {
            let isText = header.opcode == .text
            var isValid = true
            input.withUnsafeReadableBytes { bytes in
                let payload = UnsafeRawBufferPointer(rebasing: bytes[header.size..<header.size + header.length])
                batch.append(header.length, isText ? .text : .binary) { target in
                    if let key = header.maskKey, key != 0, let start = target.baseAddress {
                        Masking.copy(payload, to: start, key: key)
                    } else {
                        target.copyMemory(from: payload)
                    }
                    if isText { isValid = UTF8Validator.isValid(UnsafeRawBufferPointer(target)) }
                }
            }
            guard isValid else {
                batch.removeLast(of: header.length)
                break
            }
            input.consume(header.size + header.length)
            taken += 1
        }
        return taken
    }
}
