import Primitives

/// Cuts a stream of framed TCP into events: whole messages that are texts, and other bytes. It follows the boundaries of the
/// frames by reading the word before each (Docs/reference/wire-formats.md, "Framed TCP"), whose second bit marks a text.
///
/// It is a value: a copy made at an offset cuts the stream again from there.
package struct StreamCutter: Sendable, Hashable {
    /// Where the cut is.
    private enum Place: Sendable, Hashable {
        /// Within the word before a frame, of which some bytes are cut off already.
        case word(UInt32, bytes: Int)
        /// Within a frame, of which this many bytes follow. It is at least 1.
        case frame(Int)
    }

    private static let controlBit: UInt32 = 0x8000_0000
    private static let boundary = Place.word(0, bytes: 0)

    private var place = StreamCutter.boundary

    /// Creates a cutter at the beginning of a stream.
    package init() {}

    /// Cuts off the next event, and moves behind it. Nothing waits: a message of which only a part is there is cut into
    /// bytes.
    ///
    /// - Parameter bytes: the bytes of the stream from the cut on, as far as they are there.
    /// - Returns: the event and the number of its bytes in the stream, which is at least 1. `nil` without bytes.
    package mutating func next(_ bytes: UnsafeRawBufferPointer) -> (event: StreamEvent, count: Int)? {
        guard !bytes.isEmpty else { return nil }
        if place == Self.boundary, let text = Self.text(bytes) { return (.text(text), text.count + 4) }
        let count = advance(bytes, atMost: StreamEvent.largestPiece, untilBoundary: true)
        return (.bytes(Array(bytes[..<count])), count)
    }

    /// Moves the cut behind bytes, without events.
    package mutating func advance(over bytes: UnsafeRawBufferPointer) {
        _ = advance(bytes, atMost: bytes.count, untilBoundary: false)
    }

    /// Moves the cut, and returns by how many bytes.
    private mutating func advance(_ bytes: UnsafeRawBufferPointer, atMost most: Int, untilBoundary: Bool) -> Int {
        let end = min(most, bytes.count)
        var index = 0
        while index < end {
            switch place {
            case .word(let word, let count):
                let word = word << 8 | UInt32(bytes[index])
                index += 1
                if count < 3 {
                    place = .word(word, bytes: count + 1)
                } else {
                    let isControl = word & Self.controlBit != 0
                    let size = Int(word & ~(isControl ? Self.controlBit : FramedTCPCore.textBit))
                    place = size == 0 ? Self.boundary : .frame(size)
                }
            case .frame(let left):
                let count = min(left, end - index)
                index += count
                place = count == left ? Self.boundary : .frame(left - count)
            }
            if untilBoundary, place == Self.boundary { break }
        }
        return index
    }

    /// The message at the beginning of `bytes`, if it is whole, marked as text, and can be sent as such: valid UTF-8 without
    /// CR, which a reader cannot distinguish from LF, and without NUL. A message whose lines take more bytes than its Base64
    /// is sent as bytes, because a message of line ends alone would be seven times as long otherwise.
    private static func text(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        guard bytes.count >= 4 else { return nil }
        let marked = UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self))
        let word = marked ^ FramedTCPCore.textBit
        guard word <= StreamEvent.largestText, bytes.count - 4 >= Int(word) else { return nil }
        let message = UnsafeRawBufferPointer(rebasing: bytes[4..<4 + Int(word)])
        var lines = 1
        for byte in message where byte <= UInt8(ascii: "\r") {
            guard byte != 0, byte != UInt8(ascii: "\r") else { return nil }
            if byte == UInt8(ascii: "\n") { lines += 1 }
        }
        guard StreamEvent.textSize(message.count, lines: lines) <= StreamEvent.bytesSize(message.count + 4),
            UTF8Validator.isValid(message)
        else { return nil }
        return Array(message)
    }
}
