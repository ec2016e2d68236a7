import TransportAPI

/// Reads frames of STOMP 1.2 from a byte stream (sections "STOMP Frames" and "Augmented BNF"). Each byte is looked at
/// once, however the stream is cut, and every limit is checked before memory is taken.
///
/// A line is consumed as soon as it is complete, and a body when all of it has arrived. Input that the specification
/// forbids is an error. One form is accepted beyond its grammar: a colon in a value needs no escape, because the first
/// colon already ends the name, and brokers write values such as times and addresses without it.
package struct STOMPFrameReader: Sendable {
    /// The limits of a frame, in bytes unless they are counts.
    package struct Limits: Sendable, Hashable {
        /// The longest line of a header, without its end; 16 KiB by default.
        package var line = 16 << 10
        /// The most headers; 256 by default.
        package var headers = 256
        /// The longest head: the command and all headers with their line ends; 64 KiB by default.
        package var head = 64 << 10
        /// The largest body that is kept; 16 MiB by default. One that is larger is passed over, see
        /// ``STOMPFrame/isWhole``.
        package var body = 16 << 20
        /// The largest body that is passed over, in bytes; 256 MiB by default, as for the largest packet of MQTT.
        package var passedOver = STOMPFrameReader.largestPassedOver

        /// Creates the default limits.
        package init() {}
    }

    /// How much of the body of an ERROR is kept, in bytes. The rest is not read, because the connection is over.
    static let errorBody = 1024
    /// The most bytes of a body that any limit allows.
    package static let largestPassedOver = 256 << 20

    private enum Step: Sendable, Hashable {
        /// Before the first byte of a command. Line ends are skipped: they are heart-beats.
        case between
        /// Before the next header, or the empty line after the last one.
        case head
        /// The body is not complete. Its size if the frame has said it.
        case body(Int?)
        /// The body is not kept. So many of its bytes are missing, or all up to a NUL.
        case passingOver(Int?)
        /// After an ERROR, which is the last frame of a server.
        case over
    }

    /// The commands that may arrive now. Another one is refused at the end of its line.
    var accepted: STOMPCommands
    /// The phase of the connection, for errors.
    var phase: TransportError.Phase = .handshake
    private let limits: Limits
    private var step = Step.between
    /// The frame that is being read.
    private var frame = STOMPFrame(.message)
    /// The size of its head so far.
    private var head = 0
    /// How many bytes at the front of the input are known not to hold the end of the line or the body.
    private var scanned = 0
    /// The line ends between frames.
    private var lineEnds = BlankBytes()

    /// Creates a reader that accepts these commands.
    package init(_ limits: Limits = Limits(), accepted: STOMPCommands) {
        self.limits = limits
        self.accepted = accepted
    }

    /// Whether the last frame is complete and no byte of another one was consumed.
    var isBetweenFrames: Bool { step == .between || step == .over }

    /// The ERROR whose head is complete, if its body is not. A broker that closes the connection now has said why.
    var begunError: STOMPFrame? {
        guard frame.command == .error, case .body = step else { return nil }
        return frame
    }

    /// The memory of a frame that has not arrived whole, in bytes. A text of more than 15 bytes has its own allocation.
    var bufferedBytes: Int {
        isBetweenFrames ? 0 : head + frame.headers.capacity * (MemoryLayout<STOMPHeader>.stride + 64)
    }

    /// Takes the work of line ends since the last call (``CoreCounters/controlWork``).
    mutating func takeLineEndWork() -> UInt64 { lineEnds.takeWork() }

    /// Takes the next frame from `input`. Returns `nil` if it has not arrived whole.
    ///
    /// - Throws: `.protocolViolation` for what the specification forbids, `.messageTooLarge` for what exceeds a limit.
    package mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> STOMPFrame? {
        while true {
            switch step {
            case .between: guard try readCommand(&input) else { return nil }
            case .head: guard try readHeader(&input) else { return nil }
            case .body(let size?):
                guard try readBody(size, &input) else { return nil }
                return take()
            case .body(nil):
                guard try readBodyToNUL(&input) else { return nil }
                if step == .body(nil) { return take() }
            case .passingOver(let left):
                guard try passOver(left, &input) else { return nil }
                return take()
            case .over:
                input.removeAll()
                return nil
            }
        }
    }

    /// Gives the complete frame away.
    private mutating func take() -> STOMPFrame {
        step = frame.command == .error ? .over : .between
        scanned = 0
        defer { frame = STOMPFrame(.message) }
        return frame
    }

    // MARK: Errors

    @inline(never)
    private func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, phase, sentence)
    }

    @inline(never)
    private func tooLarge(_ sentence: String) -> TransportError {
        TransportError(.messageTooLarge, phase, sentence)
    }
}

// The head.
extension STOMPFrameReader {
    private static let cr = UInt8(ascii: "\r")
    private static let lf = UInt8(ascii: "\n")

    /// Skips line ends, and reads the line of the command. Returns `false` if it is not complete.
    private mutating func readCommand(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        let known = scanned
        let (skipped, end) = try input.withUnsafeReadableBytes { (bytes) throws(TransportError) -> (Int, Int?) in
            let skipped = known > 0 ? 0 : Self.lineEnds(bytes)
            let rest = UnsafeRawBufferPointer(rebasing: bytes[skipped...])
            return (skipped, try endOfCommand(rest, from: known))
        }
        input.consume(skipped)
        lineEnds.add(skipped)
        guard let end else {
            // Between CR and LF nothing of a command has arrived.
            scanned = input.byte(at: 0) == Self.cr ? 0 : max(input.count - 1, 0)
            return false
        }
        let command = try input.withUnsafeReadableBytes { (bytes) throws(TransportError) -> STOMPCommand in
            try self.command(UnsafeRawBufferPointer(rebasing: bytes[..<Self.withoutCR(bytes, end)]))
        }
        input.consume(end + 1)
        frame = STOMPFrame(command)
        lineEnds.endRow()
        (step, head, scanned) = (.head, end + 1, 0)
        return true
    }

    /// How many bytes at the front are whole line ends.
    private static func lineEnds(_ bytes: UnsafeRawBufferPointer) -> Int {
        var index = 0
        while index < bytes.count {
            if bytes[index] == lf {
                index += 1
            } else if bytes[index] == cr, index + 1 < bytes.count, bytes[index + 1] == lf {
                index += 2
            } else {
                break
            }
        }
        return index
    }

    /// The position of the line feed after the command, or `nil` if it has not arrived. The first byte that no command
    /// can have is an error, so that a peer that speaks something else is recognized at once.
    private func endOfCommand(_ bytes: UnsafeRawBufferPointer, from known: Int) throws(TransportError) -> Int? {
        var index = known
        while index < bytes.count {
            let byte = bytes[index]
            if byte == Self.lf { return index }
            if byte == Self.cr {
                guard index + 1 < bytes.count else { return nil }
                index += 1
                if bytes[index] == Self.lf { return index }
            } else if UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte, index < STOMPCommand.longestName {
                index += 1
                continue
            }
            let seen = String(excerptOf: bytes[...index])
            throw violation("a frame begins with '\(seen)', expected was a command of STOMP 1.2")
        }
        return nil
    }

    private func command(_ name: UnsafeRawBufferPointer) throws(TransportError) -> STOMPCommand {
        guard let command = STOMPCommand(name: name) else {
            throw violation("'\(String(excerptOf: name))' is not a command of STOMP 1.2")
        }
        guard accepted.contains(command) else { throw violation("\(command.name) is out of place here") }
        return command
    }

    private static func withoutCR(_ bytes: UnsafeRawBufferPointer, _ end: Int) -> Int {
        end > 0 && bytes[end - 1] == cr ? end - 1 : end
    }

    /// Reads one line of the head. Returns `false` if it is not complete.
    private mutating func readHeader(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        let known = scanned
        let end = try input.withUnsafeReadableBytes { (bytes) throws(TransportError) in
            try endOfLine(bytes, from: known)
        }
        guard let end else {
            scanned = input.count
            return false
        }
        head += end + 1
        guard head <= limits.head else {
            throw tooLarge("the head of \(frame.command.name) is longer than \(limits.head) bytes, which are allowed")
        }
        let header = try input.withUnsafeReadableBytes { (bytes) throws(TransportError) -> STOMPHeader? in
            try self.header(UnsafeRawBufferPointer(rebasing: bytes[..<Self.withoutCR(bytes, end)]))
        }
        input.consume(end + 1)
        scanned = 0
        if let header { frame.headers.append(header) } else { try beginBody() }
        return true
    }

    /// The position of the next line feed, or `nil` if it has not arrived.
    private func endOfLine(_ bytes: UnsafeRawBufferPointer, from known: Int) throws(TransportError) -> Int? {
        // A CR before the line feed is not a part of the line.
        let longest = limits.line + 1
        for index in known..<max(min(bytes.count, longest + 1), known) {
            if bytes[index] == Self.lf { return index }
            guard bytes[index] != 0 else {
                throw violation("\(frame.command.name) ends within its headers, expected was an empty line after them")
            }
        }
        guard bytes.count <= longest else {
            throw tooLarge(
                "a header of \(frame.command.name) is longer than \(limits.line) bytes, which are allowed"
            )
        }
        return nil
    }

    /// Reads a header from its line. Returns `nil` for the empty line.
    private func header(_ line: UnsafeRawBufferPointer) throws(TransportError) -> STOMPHeader? {
        guard !line.isEmpty else { return nil }
        let name = frame.command.name
        guard frame.headers.count < limits.headers else {
            throw tooLarge("\(name) has more than \(limits.headers) headers, which are allowed")
        }
        guard !line.contains(Self.cr) else {
            throw violation("\(name) has a header with a carriage return, which has to be written as \\r")
        }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > 0 else {
            throw violation("\(name) has the header line '\(String(excerptOf: line))', expected was name:value")
        }
        let value = try text(UnsafeRawBufferPointer(rebasing: line[(colon + 1)...]))
        return STOMPHeader(try text(UnsafeRawBufferPointer(rebasing: line[..<colon])), value)
    }

    /// Reads a name or a value (section "Value Encoding"). Spaces are not removed.
    private func text(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> String {
        guard frame.command.isEscaped, bytes.contains(UInt8(ascii: "\\")) else { return try wellFormed(bytes) }
        var plain: [UInt8] = []
        plain.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            guard bytes[index] == UInt8(ascii: "\\") else {
                plain.append(bytes[index])
                index += 1
                continue
            }
            guard index + 1 < bytes.count, let byte = Self.unescaped(bytes[index + 1]) else {
                let seen = String(excerptOf: bytes[index..<min(index + 2, bytes.count)])
                throw violation("\(frame.command.name) has the escape '\(seen)', defined are \\r, \\n, \\c and \\\\")
            }
            plain.append(byte)
            index += 2
        }
        guard let text = String(validating: plain, as: UTF8.self) else { throw notUTF8(bytes) }
        return text
    }

    private static func unescaped(_ letter: UInt8) -> UInt8? {
        switch letter {
        case UInt8(ascii: "r"): cr
        case UInt8(ascii: "n"): lf
        case UInt8(ascii: "c"): UInt8(ascii: ":")
        case UInt8(ascii: "\\"): letter
        default: nil
        }
    }

    private func wellFormed(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw notUTF8(bytes) }
        return text
    }

    private func notUTF8(_ bytes: UnsafeRawBufferPointer) -> TransportError {
        violation("\(frame.command.name) has a header that is not UTF-8: '\(String(excerptOf: bytes))'")
    }
}

// The body.
extension STOMPFrameReader {
    /// The most bytes of the body that are kept.
    private var kept: Int {
        switch frame.command {
        case .error: Self.errorBody
        case .message, .send: limits.body
        default: 0
        }
    }

    /// The head is complete.
    private mutating func beginBody() throws(TransportError) {
        guard let text = frame["content-length"] else {
            step = .body(nil)
            return
        }
        guard let size = Self.number(text) else {
            let seen = String(excerptOf: text.utf8)
            throw violation("\(frame.command.name) has content-length '\(seen)', expected was a number of bytes")
        }
        if !frame.command.mayHaveBody, size > 0 { throw unwantedBody() }
        frame.bodySize = size
        guard size > kept, frame.command != .error else {
            step = .body(size)
            return
        }
        try checkPassedOver()
        step = .passingOver(size)
    }

    /// Reads digits. A number that is too large for its type counts as the largest.
    private static func number(_ text: String) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return nil }
        return Int(text) ?? .max
    }

    private func unwantedBody() -> TransportError {
        violation("\(frame.command.name) has a body, which only SEND, MESSAGE and ERROR may have")
    }

    private func checkPassedOver() throws(TransportError) {
        guard frame.bodySize <= limits.passedOver else {
            let most = limits.passedOver
            throw tooLarge("\(frame.command.name) has a body of more than \(most) bytes, \(kept) are allowed")
        }
    }

    /// Reads a body of this size and the NUL after it. Returns `false` if they have not arrived.
    private mutating func readBody(_ size: Int, _ input: inout ByteBuffer) throws(TransportError) -> Bool {
        let taken = min(size, kept)
        guard input.count > taken || size > taken && input.count == taken else { return false }
        if size == taken { try checkNUL(input.byte(at: size)) }
        frame.body = input.bytes(at: 0, count: taken) ?? []
        input.consume(size == taken ? size + 1 : taken)
        return true
    }

    private func checkNUL(_ byte: UInt8?) throws(TransportError) {
        guard byte == 0 else {
            let size = frame.bodySize
            throw violation("\(frame.command.name) has more bytes than its content-length \(size), expected was a NUL")
        }
    }

    /// Reads a body up to its NUL. Returns `false` if that has not arrived.
    private mutating func readBodyToNUL(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        let (known, most) = (scanned, kept)
        let end = input.withUnsafeReadableBytes { bytes in
            bytes[known..<max(min(bytes.count, most + 1), known)].firstIndex(of: 0)
        }
        if let end {
            frame.body = input.bytes(at: 0, count: end) ?? []
            frame.bodySize = end
            input.consume(end + 1)
            return true
        }
        guard input.count > most else {
            scanned = input.count
            return false
        }
        guard frame.command.mayHaveBody else { throw unwantedBody() }
        frame.bodySize = most + 1
        if frame.command == .error {
            frame.body = input.bytes(at: 0, count: most) ?? []
        } else {
            step = .passingOver(nil)
        }
        input.consume(most + 1)
        return true
    }

    /// Consumes what has arrived of a body that is not kept. Returns `false` if more follows.
    private mutating func passOver(_ left: Int?, _ input: inout ByteBuffer) throws(TransportError) -> Bool {
        if let left {
            let count = min(left, input.count)
            input.consume(count)
            step = .passingOver(left - count)
            guard count == left, let next = input.byte(at: 0) else { return false }
            try checkNUL(next)
            input.consume(1)
            return true
        }
        let end = input.withUnsafeReadableBytes { $0.firstIndex(of: 0) }
        frame.bodySize = frame.bodySize.addingSaturated(end ?? input.count)
        try checkPassedOver()
        input.consume(end.map { $0 + 1 } ?? input.count)
        return end != nil
    }
}
