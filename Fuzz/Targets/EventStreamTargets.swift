import TransportAPI

@testable import Primitives
@testable import Protocols

/// Reads a stream of events in any slices, and compares it with a reader that splits whole lines. Then writes the events and
/// reads them again.
func fuzzEventStream(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let slicing = input.choice()
    let most = input.choice(of: [2000, 20])
    let whole = readEvents(input.rest, .whole, most)
    let sliced = readEvents(input.rest, Slicing(max(slicing, 1)), most)
    try ensure(whole == sliced, "sliced \(slicing): \(sliced) instead of \(whole)")
    if whole.error == nil {
        let expected = expectedEvents(input.rest)
        try ensure(whole.events == expected, "\(whole.events) instead of \(expected)")
    }

    var output = ByteBuffer()
    for (index, event) in whole.events.enumerated() {
        let type = event.type == "message" ? nil : event.type
        EventStreamWriter.event(id: UInt64(index), type: type, data: event.data, to: &output)
        EventStreamWriter.comment("c", to: &output)
    }
    let written = output.bytes(at: 0, count: output.count) ?? []
    let again = readEvents(written[...], Slicing(slicing), 100_000)
    try ensure(again.error == nil && again.events.count == whole.events.count, "\(whole.events) are read as \(again)")
    for (index, pair) in zip(whole.events, again.events).enumerated() {
        let isSame = pair.0.data == pair.1.data && pair.0.type == pair.1.type && pair.1.id == "\(index)"
        try ensure(isSame, "\(pair.0) is read as \(pair.1)")
    }
    for event in whole.events {
        guard let part = StreamEvent(event) else { continue }
        var stream = ByteBuffer()
        part.append(to: &stream)
        try ensure(stream.count == part.count, "\(part) stands for \(stream.count) bytes")
    }
}

private struct ReadEvents: Equatable {
    var events: [EventStreamReader.Event] = []
    var error: HTTPMessageError?
}

private func readEvents(_ bytes: ArraySlice<UInt8>, _ slicing: Slicing, _ most: Int) -> ReadEvents {
    var (read, slicing) = (ReadEvents(), slicing)
    var reader = EventStreamReader(maximumLine: most, maximumEvent: most)
    do throws(HTTPMessageError) {
        for slice in slicing.slices(of: bytes) {
            reader.append(Array(slice))
            while let event = try reader.next() { read.events.append(event) }
        }
    } catch {
        read.error = error
    }
    return read
}

/// The events of a whole stream, found in the simplest way.
private func expectedEvents(_ bytes: ArraySlice<UInt8>) -> [EventStreamReader.Event] {
    var rest = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? bytes.dropFirst(3) : bytes
    var (events, data, type, id) = ([EventStreamReader.Event](), [[UInt8]](), "", "")
    while let end = rest.firstIndex(where: { $0 == 0x0a || $0 == 0x0d }) {
        let line = rest[..<end]
        let isPair = rest[end] == 0x0d && rest[(end + 1)...].first == 0x0a
        rest = rest[(end + (isPair ? 2 : 1))...]
        guard !line.isEmpty else {
            if !data.isEmpty {
                let joined = Array(data.joined(separator: [0x0a]))
                events.append(.init(type: type.isEmpty ? "message" : type, data: joined, id: id))
            }
            (data, type) = ([], "")
            continue
        }
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        var value = parts.count > 1 ? parts[1] : []
        if value.first == 0x20 { value = value.dropFirst() }
        switch String(decoding: parts[0], as: UTF8.self) {
        case "data": data.append(Array(value))
        case "event": type = String(decoding: value, as: UTF8.self)
        case "id" where !value.contains(0): id = String(decoding: value, as: UTF8.self)
        default: break
        }
    }
    return events
}

/// Cuts a stream of framed TCP into events while it grows, and puts them together again.
func fuzzStreamCutter(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var slicing = Slicing(input.choice())
    let restart = Int(input.choice())
    // Lengths of frames that fit the input are likelier than arbitrary ones.
    var stream: [UInt8] = []
    if input.flag() {
        while !input.rest.isEmpty {
            let message = input.record()
            let mark = message.count % 2 == 0 ? FramedTCPCore.textBit : 0
            withUnsafeBytes(of: (UInt32(message.count) | mark).bigEndian) { stream += $0 }
            stream += message
        }
    } else {
        stream = Array(input.rest)
    }
    var cutter = StreamCutter()
    var joined = ByteBuffer()
    var (start, end) = (0, 0)
    for slice in slicing.slices(of: stream[...]) {
        end += slice.count
        while let next = stream[start..<end].withUnsafeBytes({ cutter.next($0) }) {
            try ensure(next.count == next.event.count && next.count > 0, "\(next)")
            if case .text(let text) = next.event {
                let isValid = text.withUnsafeBytes { UTF8Validator.isValid($0) }
                try ensure(isValid && !text.contains(0) && !text.contains(0x0d), "\(text) is no text")
                var output = ByteBuffer()
                next.event.write(offset: 0, to: &output)
                try ensure(output.count <= next.count * 4 / 3 + 40, "\(text) takes \(output.count) bytes")
            }
            start += next.count
            next.event.append(to: &joined)
        }
        try ensure(start == end, "\(end - start) bytes wait")
    }
    try ensure(joined.bytes(at: 0, count: joined.count) ?? [] == stream, "the events are not the stream")

    // A cutter that has been moved is where one that has cut is.
    var moved = StreamCutter()
    let middle = min(restart, stream.count)
    stream[..<middle].withUnsafeBytes { moved.advance(over: $0) }
    stream[middle...].withUnsafeBytes { moved.advance(over: $0) }
    try ensure(moved == cutter, "\(moved) instead of \(cutter)")
}
