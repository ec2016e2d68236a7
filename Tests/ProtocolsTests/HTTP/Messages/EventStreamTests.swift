import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Streams of events")
struct EventStreamTests {
    private static let slices = [1, 2, 3, 7, Int.max]

    static func read(
        _ bytes: [UInt8],
        slice: Int,
        line: Int = 1000,
        event: Int = 1000
    ) throws(HTTPMessageError) -> [EventStreamReader.Event] {
        var reader = EventStreamReader(maximumLine: line, maximumEvent: event)
        var (events, rest) = ([EventStreamReader.Event](), bytes[...])
        while !rest.isEmpty {
            reader.append(Array(rest.prefix(slice)))
            rest = rest.dropFirst(slice)
            while let event = try reader.next() { events.append(event) }
        }
        return events
    }

    private static func event(_ data: String, _ type: String = "message", id: String = "") -> EventStreamReader.Event {
        EventStreamReader.Event(type: type, data: Array(data.utf8), id: id)
    }

    @Test(
        "Events are read as the specification says, whole and byte by byte",
        arguments: [
            // The examples of WHATWG HTML, section 9.2.6.
            ("data: YHOO\ndata: +2\ndata: 10\n\n", [event("YHOO\n+2\n10")]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
                [event("first event", id: "1"), event("second event")]
            ),
            ("data\n\ndata\ndata\n\ndata:", [event(""), event("\n")]),
            ("data:test\n\ndata: test\n\n", [event("test"), event("test")]),
            // Line ends.
            ("data: a\r\ndata: b\r\n\r\n", [event("a\nb")]), ("data: a\rdata: b\r\r", [event("a\nb")]),
            ("data: a\r\n\rdata: b\n\r\n", [event("a"), event("b")]),
            // Byte order marks: one at the beginning is skipped.
            ("\u{feff}data: a\n\n", [event("a")]), ("\u{feff}\u{feff}data: a\n\n", []),
            ("data: a\n\n\u{feff}data: b\n\n", [event("a")]),
            ("\u{feff}\n", []),
            // Fields.
            ("event: x\ndata: a\n\ndata: b\n\n", [event("a", "x"), event("b")]),
            ("event: x\n\ndata: a\n\n", [event("a")]),
            ("event: x\nevent:\ndata: a\n\n", [event("a")]),
            ("id: 7\ndata: a\n\ndata: b\n\n", [event("a", id: "7"), event("b", id: "7")]),
            ("id: 7\n\ndata: a\n\n", [event("a", id: "7")]), ("id: 7\nid: 8\0\ndata: a\n\n", [event("a", id: "7")]),
            ("retry: 10\nfoo: bar\n: c\n:\ndata: a\n\n", [event("a")]), ("Data: a\n\n data: a\n\n", []),
            ("data: : a: b\n\n", [event(": a: b")]), ("data:\ta \n\n", [event("\ta ")]), ("\n\n\n", []),
        ]
    )
    func specified(stream: String, events: [EventStreamReader.Event]) throws {
        for slice in Self.slices { #expect(try Self.read(Array(stream.utf8), slice: slice) == events) }
    }

    @Test("A line and an event have limits, which count their bytes", arguments: slices)
    func limits(slice: Int) throws {
        let line = "data: 0123456789"
        #expect(try Self.read(text(line + "\n\n"), slice: slice, line: line.utf8.count).count == 1)
        for rest in ["", "\n\n"] {
            #expect(throws: HTTPMessageError.bodyTooLarge) {
                try Self.read(text(line + rest), slice: slice, line: line.utf8.count - 1)
            }
        }
        #expect(throws: HTTPMessageError.bodyTooLarge) {
            try Self.read(text(":" + String(repeating: "x", count: 1000)), slice: slice)
        }
        let two = text("data: ab\ndata: c\n\ndata: abcd\n\n")
        #expect(try Self.read(two, slice: slice, event: 4).map(\.data.count) == [4, 4])
        #expect(throws: HTTPMessageError.bodyTooLarge) { try Self.read(two, slice: slice, event: 3) }
        #expect(throws: HTTPMessageError.bodyTooLarge) {
            try Self.read(text(String(repeating: "data\n", count: 1100)), slice: slice)
        }
    }

    @Test("What is written is read again, whole and byte by byte", arguments: slices)
    func roundTrip(slice: Int) throws {
        var output = ByteBuffer()
        EventStreamWriter.comment("stream", to: &output)
        let data = ["", "a", "\n", "a\n", "\na\n\nb", " a", ": a", "data: a\n\nid: 5", "é\u{feff}"]
        for (index, text) in data.enumerated() {
            EventStreamWriter.event(
                id: index % 2 == 0 ? UInt64(index) : nil,
                type: index % 3 == 0 ? "bytes" : nil,
                data: Array(text.utf8),
                to: &output
            )
            EventStreamWriter.comment("", to: &output)
        }
        let events = try Self.read(output.bytes(at: 0, count: output.count) ?? [], slice: slice)
        #expect(events.map(\.data) == data.map { Array($0.utf8) })
        #expect(events.map(\.type) == data.indices.map { $0 % 3 == 0 ? "bytes" : "message" })
        #expect(events.map(\.id) == data.indices.map { "\($0 / 2 * 2)" })
    }

    @Test("The bytes of an event are those of the specification")
    func written() {
        var output = ByteBuffer()
        EventStreamWriter.comment("stream", to: &output)
        StreamEvent.text(text("hi\nyou")).write(offset: 10, to: &output)
        StreamEvent.bytes([0xff, 0]).write(offset: 12, to: &output)
        StreamEvent.end.write(offset: 12, to: &output)
        let expected =
            ": stream\n\nid: 10\ndata: hi\ndata: you\n\nid: 12\nevent: bytes\ndata: /wA=\n\nid: 12\nevent: end\ndata: \n\n"
        #expect(String(decoding: output.bytes(at: 0, count: output.count) ?? [], as: UTF8.self) == expected)
    }
}
