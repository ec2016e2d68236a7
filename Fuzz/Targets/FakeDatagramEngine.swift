@testable import Primitives
@testable import SocketIO

/// A DTLS engine without encryption, for the logic around engines. Its records have the headers of DTLS 1.2 (RFC 6347,
/// section 4.1). A record of epoch 1 has a check value at its end, which depends on the keys of both sides.
///
///     client                     server
///     hello                ──►
///                          ◄──   verify request, from outside of the engine
///     hello with cookie    ──►
///                          ◄──   hello
///     finished             ──►
///                          ◄──   finished
final class FakeDatagramEngine: DatagramTLSEngine {
    /// The engines of one run.
    final class Census {
        /// How many engines of servers were made, and how many of them exist.
        var made = 0
        var alive = 0
        /// The most encrypted records that one engine got before its keys.
        var mostEarly = 0
    }

    private enum Phase { case start, hello, serverHello, finished, open }

    private static let headerSize = 13
    private static let checkSize = 8
    private static let (alertType, handshakeType, dataType): (UInt8, UInt8, UInt8) = (21, 22, 23)

    private let side: TLSSettings.Side
    private let census: Census
    private let nonce: UInt64
    private(set) var description: TLSDescription?
    private var phase = Phase.start
    private var cookie: [UInt8] = []
    private var key: UInt64?
    private var sent: UInt64 = 0
    private var seen: Set<UInt64> = []
    private var early = 0
    private var unread = Deque<[UInt8]>()
    private var hasPeerEnded = false
    private var failure: TLSFailure?

    /// - Parameter number: engines of one run have different numbers.
    init(_ side: TLSSettings.Side, _ number: UInt64, _ census: Census) {
        (self.side, self.census) = (side, census)
        nonce = Self.mix(number &+ 77)
        guard side == .server else { return }
        census.made += 1
        census.alive += 1
    }

    deinit {
        if side == .server { census.alive -= 1 }
    }

    // MARK: Calls

    func handshake(_ datagram: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if let failure { return TLSStep(.failed(failure)) }
        if phase == .start {
            phase = side == .client ? .serverHello : .hello
            if side == .client { sendFlight(&output) }
        }
        take(datagram, &output)
        if let failure { return TLSStep(.failed(failure)) }
        guard phase == .open else { return TLSStep(hasPeerEnded ? .ended : .needsInput) }
        description = TLSDescription(version: "fake", cipher: "none", isVerified: false)
        return TLSStep(.done)
    }

    func read(
        _ datagram: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        if let failure { return TLSStep(.failed(failure)) }
        take(datagram, &output)
        guard let data = unread.popFirst() else { return TLSStep(hasPeerEnded ? .ended : .needsInput) }
        target.copyBytes(from: data.prefix(target.count))
        return TLSStep(.done, count: min(data.count, target.count))
    }

    func write(_ message: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        output.addDatagram(sealed(Self.dataType, Array(message)))
        return TLSStep(.done, count: message.count)
    }

    func end(_ output: inout TLSOutput) { output.addDatagram(sealed(Self.alertType, [1, 0])) }

    var timeout: Int64? { phase == .open || phase == .start ? nil : 1_000_000_000 }

    func timeoutReached(_ output: inout TLSOutput) -> TLSStep {
        sendFlight(&output)
        return TLSStep(.needsInput)
    }

    func shrink() {}

    // MARK: Flights

    private func sendFlight(_ output: inout TLSOutput) {
        switch (side, phase) {
        case (.client, .serverHello): output.addDatagram(record(Self.handshakeType, Self.hello(nonce, cookie: cookie)))
        case (.server, .finished): output.addDatagram(record(Self.handshakeType, [2] + nonce.bigEndianBytes))
        default: output.addDatagram(sealed(Self.handshakeType, [20]))
        }
    }

    /// A ClientHello in one fragment.
    static func hello(_ nonce: UInt64, cookie: [UInt8]) -> [UInt8] {
        var body: [UInt8] = [0xfe, 0xfd] + nonce.bigEndianBytes + [UInt8](repeating: 9, count: 24) + [0]
        body += [UInt8(truncatingIfNeeded: cookie.count)] + cookie + [0, 2, 0xc0, 0x2b, 1, 0]
        let length: [UInt8] = [0, 0, UInt8(truncatingIfNeeded: body.count)]
        return [1] + length + [0, cookie.isEmpty ? 0 : 1, 0, 0, 0] + length + body
    }

    private func takeHandshake(_ body: ArraySlice<UInt8>, isEncrypted: Bool, _ output: inout TLSOutput) {
        switch (side, phase, body.first, isEncrypted) {
        case (.client, .serverHello, 3, false):
            // The cookie comes after 12 bytes of the message's header, the version, and its length.
            let found = Array(body.dropFirst(15))
            guard cookie.isEmpty, !found.isEmpty, found.count <= 32 else { return }
            cookie = found
            sendFlight(&output)
        case (.client, .serverHello, 2, false):
            guard body.count == 9 else { return }
            useKey(client: nonce, server: Self.number(body.dropFirst()))
            phase = .finished
            sendFlight(&output)
        case (.server, .hello, 1, false):
            guard body.count > 22 else { return }
            useKey(client: Self.number(body.dropFirst(14)), server: nonce)
            phase = .finished
            sendFlight(&output)
        case (_, .finished, 20, true):
            phase = .open
            if side == .server { sendFlight(&output) }
        // The client repeats its last flight.
        case (.server, .open, 20, true): sendFlight(&output)
        default: break
        }
    }

    // MARK: Records

    private func take(_ datagram: UnsafeRawBufferPointer, _ output: inout TLSOutput) {
        var rest = Array(datagram)[...]
        while rest.count >= Self.headerSize, failure == nil {
            let start = rest.startIndex
            let size = Self.headerSize + (Int(rest[start + 11]) << 8 | Int(rest[start + 12]))
            guard rest.count >= size else { return }
            let record = Array(rest.prefix(size))
            rest = rest.dropFirst(size)
            let isEncrypted = record[3] != 0 || record[4] != 0
            guard isEncrypted else {
                if record[0] == Self.handshakeType {
                    takeHandshake(record.dropFirst(Self.headerSize), isEncrypted: false, &output)
                } else if record[0] == Self.alertType, phase != .open {
                    failure = TLSFailure(.other, "an alert")
                }
                continue
            }
            guard key != nil else {
                early += 1
                census.mostEarly = max(census.mostEarly, early)
                continue
            }
            guard let body = opened(record) else { continue }
            switch record[0] {
            case Self.handshakeType: takeHandshake(body, isEncrypted: true, &output)
            case Self.dataType: unread.append(Array(body))
            case Self.alertType: hasPeerEnded = true
            default: break
            }
        }
    }

    private func record(_ type: UInt8, epoch: UInt8 = 0, _ body: [UInt8]) -> [UInt8] {
        defer { sent += 1 }
        let length = [UInt8(truncatingIfNeeded: body.count >> 8), UInt8(truncatingIfNeeded: body.count)]
        return [type, 0xfe, 0xfd, 0, epoch] + sent.bigEndianBytes.dropFirst(2) + length + body
    }

    private func sealed(_ type: UInt8, _ body: [UInt8]) -> [UInt8] {
        let check = check(type, sent, body[...], side)
        return record(type, epoch: 1, body + check.bigEndianBytes)
    }

    /// The content of an encrypted record; `nil` if it is forged, broken or repeated.
    private func opened(_ record: [UInt8]) -> ArraySlice<UInt8>? {
        guard record.count >= Self.headerSize + Self.checkSize else { return nil }
        let sequence = Self.number([0, 0] + record[5..<11])
        let body = record[Self.headerSize..<(record.count - Self.checkSize)]
        let expected = check(record[0], sequence, body, side == .client ? .server : .client)
        // The fuzzer sees compared numbers, and must not learn the check value.
        let difference = Self.number(record.suffix(Self.checkSize)) ^ expected
        guard Self.mix(difference ^ nonce) == Self.mix(nonce), !seen.contains(sequence) else { return nil }
        seen.insert(sequence)
        return body
    }

    private func useKey(client: UInt64, server: UInt64) { key = Self.mix(client ^ Self.mix(server)) }

    private func check(_ type: UInt8, _ sequence: UInt64, _ body: ArraySlice<UInt8>, _ sender: TLSSettings.Side)
        -> UInt64
    {
        var sum = Self.mix((key ?? 0) ^ UInt64(type) << 48 ^ sequence ^ (sender == .client ? 1 << 60 : 0))
        for byte in body { sum = Self.mix(sum ^ UInt64(byte)) }
        return sum
    }

    /// The output function of SplitMix64.
    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value &+ 0x9e37_79b9_7f4a_7c15
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    private static func number(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

extension UInt64 {
    fileprivate var bigEndianBytes: [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: self >> (56 - 8 * UInt64($0))) }
    }
}
