/// Reads the events of a stream of type text/event-stream as they arrive (WHATWG HTML, section 9.2.6, "Interpreting an
/// event stream"). It is a value. The field `retry` is ignored, as all unknown fields are.
package struct EventStreamReader: Sendable, Hashable {
    /// An event.
    package struct Event: Sendable, Hashable {
        /// The type; `message` unless the stream gives one.
        package var type: String
        /// The lines of data, joined by LF. They are not checked to be UTF-8.
        package var data: [UInt8]
        /// The last id that the stream has given, in this event or before it. Empty if there is none.
        package var id: String
    }

    private static let (lineFeed, carriageReturn) = (UInt8(ascii: "\n"), UInt8(ascii: "\r"))

    private let maximumLine: Int
    private let maximumEvent: Int
    /// The bytes that have arrived, from the first line that is not complete.
    private var bytes: [UInt8] = []
    /// Where the first line begins that was not processed.
    private var start = 0
    /// The end of the bytes that are known to hold no end of the line.
    private var scanned = 0
    /// Whether nothing was read yet, so that a byte order mark may come.
    private var isAtBeginning = true
    /// Whether the line before ended in CR, so that an LF belongs to its end.
    private var skipsLineFeed = false

    private var type = ""
    private var data: [UInt8] = []
    /// Whether the event has a line of data, which may be empty.
    private var hasData = false
    private var id = ""

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - maximumLine: the longest line in bytes, without its end.
    ///   - maximumEvent: the largest data of one event in bytes.
    package init(maximumLine: Int, maximumEvent: Int) {
        self.maximumLine = maximumLine
        self.maximumEvent = maximumEvent
    }

    /// The memory of incomplete lines and events, in bytes.
    package var bufferedBytes: Int { bytes.capacity + data.capacity }

    /// Adds bytes that have arrived. ``next()`` is then called until it returns `nil`.
    package mutating func append(_ piece: [UInt8]) {
        bytes.removeFirst(start)
        scanned -= start
        start = 0
        bytes += piece
    }

    /// Returns the next event. Returns `nil` if it has not arrived completely.
    ///
    /// - Throws: `.bodyTooLarge` for a line or an event that exceeds its limit.
    package mutating func next() throws(HTTPMessageError) -> Event? {
        guard skipByteOrderMark() else { return nil }
        while let line = try nextLine() {
            if line.isEmpty {
                if let event = dispatch() { return event }
            } else {
                try process(line)
            }
        }
        return nil
    }

    /// Skips a byte order mark at the beginning. Returns `false` if it may still arrive.
    private mutating func skipByteOrderMark() -> Bool {
        guard isAtBeginning else { return true }
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        if bytes.count < mark.count, mark.starts(with: bytes) { return false }
        isAtBeginning = false
        if bytes.starts(with: mark) {
            start = mark.count
            scanned = mark.count
        }
        return true
    }

    /// Consumes the next line and returns it without its end: CR, LF or both.
    private mutating func nextLine() throws(HTTPMessageError) -> ArraySlice<UInt8>? {
        if skipsLineFeed, start < bytes.count {
            if bytes[start] == Self.lineFeed {
                start += 1
                scanned = start
            }
            skipsLineFeed = false
        }
        let end = bytes[scanned...].firstIndex { $0 == Self.lineFeed || $0 == Self.carriageReturn }
        guard (end ?? bytes.count) - start <= maximumLine else { throw .bodyTooLarge }
        guard let end else {
            scanned = bytes.count
            return nil
        }
        defer {
            skipsLineFeed = bytes[end] == Self.carriageReturn
            start = end + 1
            scanned = start
        }
        return bytes[start..<end]
    }

    /// Processes a line that is not empty. A comment has an empty name.
    private mutating func process(_ line: ArraySlice<UInt8>) throws(HTTPMessageError) {
        let name = line.prefix { $0 != UInt8(ascii: ":") }
        var value = line[name.endIndex...].dropFirst()
        if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
        if name.elementsEqual("data".utf8) {
            if hasData { data.append(Self.lineFeed) }
            guard value.count <= maximumEvent - data.count else { throw .bodyTooLarge }
            data += value
            hasData = true
        } else if name.elementsEqual("event".utf8) {
            type = String(decoding: value, as: UTF8.self)
        } else if name.elementsEqual("id".utf8), !value.contains(0) {
            id = String(decoding: value, as: UTF8.self)
        }
    }

    /// Ends the event. Returns `nil` if it has no data.
    private mutating func dispatch() -> Event? {
        defer {
            type = ""
            data = []
            hasData = false
        }
        return hasData ? Event(type: type.isEmpty ? "message" : type, data: data, id: id) : nil
    }
}
