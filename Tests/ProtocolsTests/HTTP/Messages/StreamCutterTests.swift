import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Streams of framed TCP, cut into events")
struct StreamCutterTests {
    /// A message with its word before it, which says that it is text if it is UTF-8.
    private static func framed(_ message: [UInt8]) -> [UInt8] {
        let isText = String(validating: message, as: UTF8.self) != nil
        let word = UInt32(message.count) | (isText ? FramedTCPCore.textBit : 0)
        return withUnsafeBytes(of: word.bigEndian, Array.init) + message
    }

    /// Cuts a stream of which `slice` more bytes are there each time.
    static func cut(_ stream: [UInt8], slice: Int, from cutter: StreamCutter = StreamCutter()) -> [StreamEvent] {
        var (cutter, events) = (cutter, [StreamEvent]())
        var (start, end) = (0, 0)
        while end < stream.count {
            end += min(slice, stream.count - end)
            while let next = stream[start..<end].withUnsafeBytes({ cutter.next($0) }) {
                #expect(next.count >= 1 && next.count == next.event.count)
                start += next.count
                events.append(next.event)
            }
            #expect(start == end)
        }
        return events
    }

    /// The stream for which events stand.
    static func join(_ events: [StreamEvent]) -> [UInt8] {
        var stream = ByteBuffer()
        for event in events { event.append(to: &stream) }
        return stream.bytes(at: 0, count: stream.count) ?? []
    }

    @Test("A whole message that is text becomes a text, and everything else bytes up to the end of its frame")
    func kinds() {
        let control: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 5]
        let others = [
            control, [0, 0, 0, 2] + text("no"), Self.framed([0xff]), Self.framed(text("a\rb")),
            Self.framed(text("a\0b")), [0x80, 0, 0, 0],
        ]
        let texts = ["", "hi", "two\nlines\n", "\u{feff}é"].map(text)
        for other in others {
            let stream = texts.flatMap { Self.framed($0) + other }
            #expect(Self.cut(stream, slice: .max) == texts.flatMap { [.text($0), .bytes(other)] })
        }
    }

    @Test("A text whose lines would take more bytes than its Base64 is sent as bytes")
    func lines() {
        /// The size of the events of a stream.
        func size(_ events: [StreamEvent]) -> Int {
            var output = ByteBuffer()
            for event in events { event.write(offset: 1_000_000, to: &output) }
            return output.count
        }
        for message in [
            "\n", "a\nb\nc\n", "short\nlines\n\nof a chat\n",
            String(repeating: "a line of usual length\n", count: 2000),
        ] {
            #expect(Self.cut(Self.framed(text(message)), slice: .max) == [.text(text(message))])
        }
        for message in ["\n\n\n\n", String(repeating: "\n", count: 65_536), String(repeating: "a\n", count: 3000)] {
            let stream = Self.framed(text(message))
            let events = Self.cut(stream, slice: .max)
            #expect(Self.join(events) == stream && size(events) < size([.text(text(message))]))
            #expect(events.allSatisfy { if case .bytes = $0 { true } else { false } })
        }
        // Whatever the lines are, an event is not much larger than Base64.
        for length in 0..<200 {
            for period in 1...10 {
                let message = (0..<length).map { $0 % period == 0 ? UInt8(ascii: "\n") : UInt8(ascii: "x") }
                let stream = Self.framed(message)
                #expect(size(Self.cut(stream, slice: .max)) <= size([.bytes(stream)]))
            }
        }
    }

    @Test("Events stand for the whole stream, however it is cut", arguments: [1, 2, 3, 5, 100, 20_000, Int.max])
    func whole(slice: Int) {
        let messages = [
            text("hi"), [], [0xff, 0xfe], longBytes(70_000), text(String(repeating: "a", count: 65_536)),
            text(String(repeating: "a", count: 65_537)), text("end"),
        ]
        let stream = messages.flatMap(Self.framed)
        let events = Self.cut(stream, slice: slice)
        #expect(Self.join(events) == stream)
        for case .bytes(let bytes) in events { #expect((1...StreamEvent.largestPiece).contains(bytes.count)) }
        for case .text(let text) in events { #expect(messages.contains(text)) }
        if slice == .max {
            #expect(events.filter { if case .text = $0 { true } else { false } }.count == 4)
        }
    }

    @Test("A cutter continues at any offset, and finds the next message there")
    func offsets() {
        let stream = Self.framed(text("one")) + Self.framed(text("two")) + Self.framed(text("three"))
        for offset in 0...stream.count {
            var cutter = StreamCutter()
            stream[..<offset].withUnsafeBytes { cutter.advance(over: $0) }
            let rest = Array(stream[offset...])
            let events = Self.cut(rest, slice: .max, from: cutter)
            #expect(Self.join(events) == rest)
            #expect(offset > 14 || events.last == .text(text("three")))
            #expect(offset % 7 != 0 || offset > 14 || events.count == 3 - offset / 7)
        }
    }

    @Test("Nothing is cut from nothing")
    func empty() {
        var cutter = StreamCutter()
        #expect([UInt8]().withUnsafeBytes { cutter.next($0) } == nil)
    }

    @Test("Events are read as they were written, whole and byte by byte", arguments: [1, 7, .max])
    func written(slice: Int) throws {
        let events: [StreamEvent] = [
            .text([]), .text(text("a\n\nb\n")), .bytes([0]), .bytes(longBytes(StreamEvent.largestPiece)),
            .text(text(String(repeating: "x", count: slice == 1 ? 100 : StreamEvent.largestText))), .end,
        ]
        var output = ByteBuffer()
        var offset: UInt64 = 0
        for event in events {
            offset += UInt64(event.count)
            event.write(offset: offset, to: &output)
        }
        let bytes = output.bytes(at: 0, count: output.count) ?? []
        let read = try EventStreamTests.read(
            bytes,
            slice: slice,
            line: StreamEvent.longestLine,
            event: StreamEvent.largestText
        )
        #expect(read.map(StreamEvent.init) == events)
        #expect(read.last?.id == "\(offset)")
    }

    @Test(
        "An event that cannot be of the stream is refused",
        arguments: [
            ("other", ""), ("bytes", "AAA=="), ("bytes", "A"), ("bytes", "é"), ("Message", "a"),
            ("message", String(repeating: "x", count: StreamEvent.largestText + 1)),
            ("bytes", String(repeating: "A", count: StreamEvent.largestPiece / 3 * 4 + 8)),
        ]
    )
    func refused(type: String, data: String) {
        #expect(StreamEvent(EventStreamReader.Event(type: type, data: Array(data.utf8), id: "")) == nil)
    }
}
