import Protocols
import TransportAPI

/// Compresses messages to raw DEFLATE with zlib.
///
/// Unchecked, because zlib's state is reached through a pointer. Its only owner is the core of a connection, which one
/// thread runs at a time.
final class ZLibDeflater: MessageDeflater, @unchecked Sendable {
    private let functions: ZLib.Functions
    private let stream: UnsafeMutablePointer<ZLib.Stream>
    let bufferedBytes: Int

    init?(_ functions: ZLib.Functions, windowBits: Int) {
        self.functions = functions
        stream = .allocate(capacity: 1)
        stream.initialize(to: ZLib.Stream())
        let memoryLevel = windowBits > 12 ? 8 : 3
        // From zconf.h, with about 6 KiB for the state.
        bufferedBytes = 1 << (windowBits + 2) + 1 << (memoryLevel + 9) + 6 << 10
        // Level 6, zlib's default, takes about 7 µs for a chat message, and level 1 takes little less. Small windows
        // get small tables: memory level 3 in place of 8.
        let status = functions.deflateInit(
            stream,
            6,
            ZLib.deflated,
            -Int32(windowBits),
            Int32(memoryLevel),
            0,
            "1",
            Int32(MemoryLayout<ZLib.Stream>.size)
        )
        guard status == ZLib.ok else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        _ = functions.deflateEnd(stream)
        stream.deallocate()
    }

    /// Messages beyond the free expansion are compressed in steps of this size. Each is flushed, so that the expansion of
    /// the output so far is known. A flush takes five bytes.
    private static let step = 64 << 10

    func deflate(_ message: UnsafeRawBufferPointer, within limit: ExpansionLimit) -> [UInt8]? {
        var output: [UInt8] = []
        guard message.count > limit.free else {
            guard append(message, to: &output) else { return nil }
            output.removeLast(Self.tail.count)
            return output
        }
        var start = 0
        while start < message.count {
            let end = min(start + Self.step, message.count)
            // The reader may get the next step byte by byte. It has this much output after the first of them at the latest.
            guard end <= limit.most(after: output.count + 1),
                append(UnsafeRawBufferPointer(rebasing: message[start..<end]), to: &output)
            else { return nil }
            start = end
        }
        output.removeLast(Self.tail.count)
        return output
    }

    /// The end of every flush.
    private static let tail: [UInt8] = [0, 0, 0xff, 0xff]

    /// Compresses and flushes a piece. Returns `false` if zlib failed.
    private func append(_ piece: UnsafeRawBufferPointer, to output: inout [UInt8]) -> Bool {
        guard let count = UInt32(exactly: piece.count), let source = piece.baseAddress else { return false }
        stream.pointee.input = UnsafeMutableRawPointer(mutating: source)
        stream.pointee.inputCount = count
        let start = output.count
        // Enough in nearly all cases, so that one iteration suffices.
        var room = piece.count / 2 + 64
        repeat {
            guard let size = UInt32(exactly: room) else { return false }
            var status = ZLib.ok
            output.append(addingCapacity: room) { span in
                span.withUnsafeMutableBufferPointer { bytes, written in
                    stream.pointee.output = UnsafeMutableRawPointer(bytes.baseAddress)
                    stream.pointee.outputCount = size
                    status = functions.deflate(stream, ZLib.syncFlush)
                    written = room - Int(stream.pointee.outputCount)
                }
            }
            guard status == ZLib.ok || status == ZLib.bufferError else { return false }
            room = max(output.count - start, 64)
        } while stream.pointee.outputCount == 0
        return stream.pointee.inputCount == 0 && output.suffix(Self.tail.count) == Self.tail
    }

    func reset() {
        _ = functions.deflateReset(stream)
    }
}

/// Decompresses messages from raw DEFLATE with zlib. Unchecked for the same reason as ``ZLibDeflater``.
final class ZLibInflater: MessageInflater, @unchecked Sendable {
    private let functions: ZLib.Functions
    private let stream: UnsafeMutablePointer<ZLib.Stream>

    let bufferedBytes: Int

    /// How many bytes are decompressed before other connections may run. This takes about 20 µs on a slow core.
    private static let step = 8 << 10

    init?(_ functions: ZLib.Functions, windowBits: Int) {
        self.functions = functions
        // From zconf.h: the window, and about 7 KiB for the state.
        bufferedBytes = 1 << windowBits + 7 << 10
        stream = .allocate(capacity: 1)
        stream.initialize(to: ZLib.Stream())
        let size = Int32(MemoryLayout<ZLib.Stream>.size)
        guard functions.inflateInit(stream, -Int32(windowBits), "1", size) == ZLib.ok else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        _ = functions.inflateEnd(stream)
        stream.deallocate()
    }

    func inflate(
        _ input: UnsafeRawBufferPointer,
        onto output: inout [UInt8],
        limit: Int,
        capacity: Int
    ) -> InflateResult {
        guard let count = UInt32(exactly: input.count) else { return .malformed }
        guard let source = input.baseAddress, count > 0 else { return .taken(0) }
        stream.pointee.input = UnsafeMutableRawPointer(mutating: source)
        stream.pointee.inputCount = count
        let room = min(max(input.count * 4, 256), Self.step)
        return withUnsafeTemporaryAllocation(byteCount: room, alignment: 16) { scratch in
            inflate(into: scratch, onto: &output, limit, capacity)
        }
    }

    private func inflate(
        into scratch: UnsafeMutableRawBufferPointer,
        onto output: inout [UInt8],
        _ limit: Int,
        _ capacity: Int
    ) -> InflateResult {
        let count = stream.pointee.inputCount
        let start = output.count
        while true {
            // At the limit, one more byte distinguishes a message of exactly that size from a larger one.
            let room = min(scratch.count, max(limit - output.count, 1))
            stream.pointee.output = scratch.baseAddress
            stream.pointee.outputCount = UInt32(clamping: room)
            let status = functions.inflate(stream, ZLib.noFlush)
            let isFull = stream.pointee.outputCount == 0
            let made = room - min(Int(stream.pointee.outputCount), room)
            // The message is too large even if the data after that byte is malformed.
            guard made <= limit - output.count else { return .tooLarge }
            append(scratch[..<made], to: &output, capacity)
            switch status {
            case ZLib.ok, ZLib.bufferError: break
            // A block that is marked as the last ends the stream, not the message (RFC 7692, section 7.2.3.4).
            case ZLib.streamEnd: guard functions.inflateResetKeep(stream) == ZLib.ok else { return .malformed }
            default: return .malformed
            }
            let left = stream.pointee.inputCount
            if left == 0, !isFull { return .taken(Int(count)) }
            if left > 0, left < count, output.count - start >= Self.step { return .taken(Int(count - left)) }
            // zlib got no input and filled no output, so this would loop forever.
            if status == ZLib.bufferError, !isFull { return .malformed }
        }
    }

    /// Appends to `output`, which grows by doubling up to `capacity`.
    private func append(_ bytes: Slice<UnsafeMutableRawBufferPointer>, to output: inout [UInt8], _ capacity: Int) {
        let needed = output.count + bytes.count
        if output.capacity < needed { output.reserveCapacity(max(needed, min(output.capacity * 2, capacity))) }
        output.append(contentsOf: UnsafeMutableRawBufferPointer(rebasing: bytes))
    }

    /// zlib sets bit 128 of data_type when a block has just ended (zlib.h).
    var isAtBlockEnd: Bool { stream.pointee.dataType & 128 != 0 }

    func reset() {
        _ = functions.inflateReset(stream)
    }
}
