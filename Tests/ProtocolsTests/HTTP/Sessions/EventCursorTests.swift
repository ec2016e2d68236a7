import TestSupport
import Testing

@testable import Protocols

@Suite("A stream in events")
struct EventCursorTests {
    /// A stream of framed TCP: texts, an empty message, bytes that are no text, a ping, and a part of a message.
    static let whole: [UInt8] = {
        func frame(_ bytes: [UInt8]) -> [UInt8] {
            let isText = String(validating: bytes, as: UTF8.self) != nil
            return withUnsafeBytes(of: (UInt32(bytes.count) | (isText ? FramedTCPCore.textBit : 0)).bigEndian) {
                $0 + bytes
            }
        }
        let texts = ["first", "", "two\nlines\n", "größe"].flatMap { frame(Array($0.utf8)) }
        return texts + frame([0xff, 0, 1]) + [0x80, 0, 0, 9] + Array(1...9) + frame(Array("last".utf8)) + [
            0, 0, 0, 4, 65,
        ]
    }()

    /// The stream that a reader of events has got, and the id of the last event.
    private func read(_ output: borrowing ByteBuffer) throws -> (stream: [UInt8], id: UInt64?, events: [StreamEvent]) {
        var reader = EventStreamReader(maximumLine: 1 << 20, maximumEvent: 1 << 20)
        reader.append(output.withUnsafeReadableBytes { Array($0) })
        var stream = ByteBuffer()
        var events: [StreamEvent] = []
        var id: UInt64?
        while let event = try reader.next() {
            let part = try #require(StreamEvent(event))
            part.append(to: &stream)
            events.append(part)
            id = UInt64(event.id)
        }
        return (stream.withUnsafeReadableBytes { Array($0) }, id, events)
    }

    @Test("A reader that resumes at any offset gets the rest of the stream, and the end of it")
    func resuming() throws {
        for offset in 0...Self.whole.count {
            var stream = RetainedStream(window: 1 << 20)
            _ = Self.whole.withUnsafeBytes { stream.write($0) }
            #expect(stream.acknowledge(before: UInt64(offset)) == .taken(offset))
            stream.finish()
            var cursor = EventCursor(stream)
            var output = ByteBuffer()
            cursor.write(stream, until: 1 << 20, to: &output)
            let result = try read(output)
            #expect(result.stream == Array(Self.whole[offset...]) && result.id == UInt64(Self.whole.count))
            #expect(cursor.hasEnded && result.events.last == .end)
            // A message that begins at the offset is a text.
            if offset == 0 { #expect(result.events.first == .text(Array("first".utf8))) }
        }
    }

    @Test("The stream comes in parts, as it is written and as there is room")
    func parts() throws {
        for step in [1, 3, 7, 100] {
            var stream = RetainedStream(window: 1 << 20)
            var cursor = EventCursor(stream)
            var all: [UInt8] = []
            for start in stride(from: 0, to: Self.whole.count, by: step) {
                let piece = Array(Self.whole[start..<min(start + step, Self.whole.count)])
                _ = piece.withUnsafeBytes { stream.write($0) }
                while true {
                    var output = ByteBuffer()
                    cursor.write(stream, until: 1, to: &output)
                    guard !output.isEmpty else { break }
                    let part = try read(output)
                    #expect(part.events.count == 1 && part.id == cursor.offset)
                    all += part.stream
                }
            }
            #expect(all == Self.whole && !cursor.hasEnded)
        }
    }
}
