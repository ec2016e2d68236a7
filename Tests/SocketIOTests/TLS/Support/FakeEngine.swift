@testable import Primitives
@testable import SocketIO

/// A TLS engine without encryption, for the logic around engines. A record is the header of TLS and its clear bytes.
///
/// The client sends a hello. The server answers with its flight, the client completes the handshake, and the server sends
/// tickets.
final class FakeEngine: TLSEngine {
    /// The types of records, as in TLS (RFC 8446, section 5.1).
    enum Kind: UInt8 {
        case alert = 21
        case handshake = 22
        case data = 23
    }

    /// The handshake messages. Each is the first byte of a record.
    enum Message: UInt8 {
        case hello = 1
        /// A part of the server's flight that is not the last one.
        case part = 2
        case lastPart = 3
        case finished = 4
        case ticket = 5
        /// Requests an answer, as KeyUpdate can.
        case request = 6
        case answer = 7
        /// The first part of a message. Nothing can be written before the rest has come, as in OpenSSL.
        case begin = 8
        case rest = 9
    }

    /// The sizes of the flights.
    struct Shape: Sendable {
        /// The number of bytes after the first one in each record of the handshake.
        var filler = 40
        /// The number of records in the server's flight, at least one.
        var parts = 3
        var tickets = 2
        /// The number of bytes in an answer.
        var answer = 1
    }

    private let side: TLSSettings.Side
    private let shape: Shape
    private(set) var description: TLSDescription?
    /// Records that the output had no room for.
    private var queue: ArraySlice<UInt8> = []
    private var readable: ArraySlice<UInt8> = []
    private var hasStarted = false
    private var isDone = false
    private var isHalfway = false
    private var failure: TLSFailure?
    /// Whether the output had no room for one record of data, which the caller of ``write(_:_:)`` has promised.
    private(set) var hasOverflowed = false
    /// Makes all writes fail.
    var breaks = false
    var keepsBuffers = false
    /// How often the buffers were freed.
    private(set) var rests = 0

    init(_ side: TLSSettings.Side, _ shape: Shape = Shape()) {
        (self.side, self.shape) = (side, shape)
    }

    var pending: Int { readable.count }

    func rest() {
        rests += 1
    }

    /// Returns a record.
    static func record(_ kind: Kind, _ body: some Collection<UInt8>) -> [UInt8] {
        [kind.rawValue, 3, 3, UInt8(truncatingIfNeeded: body.count >> 8), UInt8(truncatingIfNeeded: body.count)] + body
    }

    static func record(_ message: Message) -> [UInt8] { record(.handshake, [message.rawValue]) }

    static let closeNotify = record(.alert, [1, 0])

    private func queue(_ message: Message, filler: Int? = nil) {
        let body = [message.rawValue] + [UInt8](repeating: 0x20, count: filler ?? shape.filler)
        queue += Self.record(.handshake, body)
    }

    /// Moves queued records to the output. Returns whether none is left.
    private func send(_ output: inout TLSOutput) -> Bool {
        let count = min(queue.count, output.memory.count - output.count)
        if count > 0 {
            UnsafeMutableRawBufferPointer(rebasing: output.memory[output.count...]).copyBytes(from: queue.prefix(count))
        }
        output.count += count
        queue = queue.dropFirst(count)
        return queue.isEmpty
    }

    private func fail(_ output: inout TLSOutput, _ consumed: Int) -> TLSStep {
        queue += Self.record(.alert, [2, 10])
        _ = send(&output)
        let failure = TLSFailure(.brokenRecord, "not a record of the fake")
        self.failure = failure
        return TLSStep(.failed(failure), consumed: consumed)
    }

    private func ended(_ body: ArraySlice<UInt8>, _ consumed: Int) -> TLSStep {
        guard body.last != 0 else { return TLSStep(.ended, consumed: consumed) }
        return TLSStep(.failed(TLSFailure(.other, "an alert")), consumed: consumed)
    }

    func handshake(_ input: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if !hasStarted, side == .client { queue(.hello) }
        hasStarted = true
        if let record = Record(input) {
            if record.kind == .alert { return ended(record.body, input.count) }
            guard record.kind == .handshake, !isDone else { return fail(&output, input.count) }
            switch (side, record.message) {
            case (.server, .hello):
                for part in 1...shape.parts { queue(part == shape.parts ? .lastPart : .part) }
            case (.server, .finished):
                for _ in 0..<shape.tickets { queue(.ticket) }
                isDone = true
            case (.client, .part): break
            case (.client, .lastPart):
                queue(.finished)
                isDone = true
            default: return fail(&output, input.count)
            }
        } else if !input.isEmpty {
            return fail(&output, input.count)
        }
        guard send(&output) else { return TLSStep(.needsOutput, consumed: input.count) }
        guard isDone else { return TLSStep(.needsInput, consumed: input.count) }
        description = TLSDescription(version: "fake", cipher: "none", isVerified: false)
        return TLSStep(.done, consumed: input.count)
    }

    func read(
        _ input: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        if let failure { return TLSStep(.failed(failure)) }
        guard send(&output) else { return TLSStep(.needsOutput) }
        var consumed = 0
        if readable.isEmpty, !input.isEmpty {
            consumed = input.count
            guard let record = Record(input) else { return fail(&output, input.count) }
            switch record.kind {
            case .alert: return ended(record.body, input.count)
            case .data: readable = record.body
            case .handshake:
                switch record.message {
                case .request: queue(.answer, filler: shape.answer)
                case .begin: isHalfway = true
                case .rest: isHalfway = false
                case .ticket where side == .client: break
                case .answer: break
                default: return fail(&output, input.count)
                }
                guard send(&output) else { return TLSStep(.needsOutput, consumed: input.count) }
            }
        }
        guard !readable.isEmpty else { return TLSStep(.needsInput, consumed: consumed) }
        let count = min(readable.count, target.count)
        target.copyBytes(from: readable.prefix(count))
        readable = readable.dropFirst(count)
        return TLSStep(.done, consumed: consumed, count: count)
    }

    func write(_ bytes: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if breaks { return TLSStep(.failed(TLSFailure(.other, "the fake breaks"))) }
        if let failure { return TLSStep(.failed(failure)) }
        guard send(&output) else { return TLSStep(.needsOutput) }
        if isHalfway { return TLSStep(.needsInput) }
        let count = min(bytes.count, 16384)
        queue += Self.record(.data, UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        if !send(&output) { hasOverflowed = true }
        return TLSStep(.done, count: count)
    }

    func end(_ output: inout TLSOutput) -> TLSStep {
        queue += Self.closeNotify
        return TLSStep(send(&output) ? .done : .needsOutput)
    }

    /// One whole record.
    private struct Record {
        var kind: Kind
        var body: ArraySlice<UInt8>
        var message: Message? { body.first.flatMap(Message.init) }

        init?(_ bytes: UnsafeRawBufferPointer) {
            guard bytes.count >= 5, let kind = Kind(rawValue: bytes[0]) else { return nil }
            guard Int(bytes[3]) << 8 | Int(bytes[4]) == bytes.count - 5 else { return nil }
            self.kind = kind
            body = Array(bytes)[5...]
            if kind == .alert, body.count != 2 { return nil }
        }
    }
}
