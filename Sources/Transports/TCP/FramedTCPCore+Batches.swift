import TransportAPI

// Messages by the batch. In our format a batch holds them as the wire does, so that they are copied all at once.
extension FramedTCPCore {
    /// Moves messages of our format, up to the first that is too long or has not come whole, or to a control frame.
    public mutating func readMessages(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext,
        into batch: inout MessageBatch,
        atMost count: Int
    ) -> Int {
        guard phase == .open, isFramed, isBetweenMessages else { return 0 }
        var (end, found, longest) = (0, 0, 0)
        input.withUnsafeReadableBytes { bytes in
            while found < count, bytes.count - end >= 4 {
                // A control frame's highest bit makes its length larger than any limit.
                let size = Int(UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: end, as: UInt32.self)))
                guard size <= limit, bytes.count - end - 4 >= size else { break }
                end += 4 + size
                found += 1
                longest = max(longest, size)
            }
            batch.append(run: UnsafeRawBufferPointer(rebasing: bytes[..<end]), count: found, longest: longest)
        }
        input.consume(end)
        return found
    }

    /// Writes messages of our format as they lie there. Writes none if one of them may be too long or has properties.
    public mutating func writeMessages(
        of batch: borrowing MessageBatch,
        from cursor: inout MessageBatch.Cursor,
        room: Int,
        _ context: inout CoreContext
    ) {
        guard phase == .open, isFramed, batch.longest <= limit, !batch.hasProperties else { return }
        batch.takeRun(from: &cursor, room: room) { context.output.append(contentsOf: $0) }
    }
}
