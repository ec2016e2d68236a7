import Primitives
import SocketIO

/// The sessions of one context of ``ToyTLS`` that can be continued.
final class ToySessions: Sendable {
    struct Session: Sendable {
        var ticket: UInt64
        var secret: UInt64
    }

    private struct State {
        /// The last session of a client with each server.
        var clients: [String: Session] = [:]
        /// The sessions that a server continues, the oldest first.
        var servers: [Session] = []
    }

    /// How many sessions a server continues.
    private static let limit = 64

    private let state = Locked(State())

    func session(with server: String) -> Session? { state.withLock { $0.clients[server] } }

    func keep(_ session: Session, with server: String) { state.withLock { $0.clients[server] = session } }

    func secret(of ticket: UInt64) -> UInt64? {
        state.withLock { $0.servers.first { $0.ticket == ticket }?.secret }
    }

    func issue(_ session: Session) {
        state.withLock {
            $0.servers.append(session)
            if $0.servers.count > Self.limit { $0.servers.removeFirst() }
        }
    }
}

/// One association of ``ToyTLS`` over datagrams. Its records have the headers and the overhead of DTLS 1.2 (RFC 6347).
///
/// Each flight is repeated by a timer until the next flight of the peer is complete. The last flight is repeated when the
/// last message of the peer arrives again. The server outside of the engine exchanges the cookies.
///
///     client                     server
///     hello                ──►
///                          ◄──   verify request
///     hello with cookie    ──►
///                          ◄──   hello, certificate, done
///     key, finished        ──►
///                          ◄──   ticket, finished
///
/// A client that has a ticket continues its session, unless the server refuses.
///
///     hello with cookie    ──►
///                          ◄──   hello, finished
///     finished             ──►
final class ToyDatagramEngine: DatagramTLSEngine {
    /// The types of records (RFC 5246, section 6.2.1).
    private enum RecordType: UInt8 {
        case changeOfKeys = 20
        case alert, handshake, data
    }

    /// The types of handshake messages (RFC 5246, section 7.4, and RFC 6347, section 4.3.2).
    private enum Kind: UInt8 {
        case clientHello = 1
        case serverHello, verifyRequest, ticket
        case certificate = 11
        case serverDone = 14
        case clientKey = 16
        case finished = 20
    }

    /// The next message that the handshake waits for.
    private enum Phase {
        case start, clientHello, serverHello, certificate, serverFinished, clientFinished, open
        case failed(TLSFailure)
    }

    /// One part of a flight: a message of the handshake, or a change of keys.
    private struct Part {
        var type = RecordType.handshake
        var kind = Kind.finished
        var sequence: UInt16 = 0
        var body: [UInt8] = [1]
        var isEncrypted = false
    }

    /// A message of the handshake of which some fragments have arrived.
    private struct Incomplete {
        var kind: UInt8
        var body: [UInt8]
        var isThere: [Bool]
    }

    private static let header = 13
    private static let messageHeader = 12
    /// The explicit nonce and the tag of an encrypted record.
    private static let nonce = 8
    private static let tag = 16
    /// How many records that come before the keys, or that were not read, are kept.
    private static let keptRecords = 64
    private static let firstWait: Int64 = 200_000_000
    private static let longestWait: Int64 = 2_000_000_000
    /// How many repetitions of a flight have no answer before the handshake fails.
    private static let repetitions = 12

    private let library: ToyTLS
    private let settings: TLSSettings
    private let sessions: ToySessions
    /// The name and the port of the server, at a client.
    private let server: String
    private let number: Int
    private var random: SimulationRandom
    private(set) var description: TLSDescription?

    private var phase = Phase.start
    private var hasPeerEnded = false
    private var selected: String?

    /// The 32 random bytes of this side. The first eight count.
    private let ownRandom: [UInt8]
    private var sessionID: [UInt8]
    private let filler: [UInt8]
    private var cookie: [UInt8] = []
    private var offered: ToySessions.Session?
    private var isResumed = false
    private var secret: UInt64 = 0
    private var hasKeys = false
    private var reader = ToyCipher()
    private var writer = ToyCipher()

    private var nextPlain: UInt64 = 0
    private var nextEncrypted: UInt64 = 0
    /// The highest number of a received record, and a bit for each of the 64 up to it.
    private var highest: UInt64 = 0
    private var window: UInt64 = 0

    private var nextSent: UInt16 = 0
    private var nextReceived: UInt16 = 0
    private var incomplete: [UInt16: Incomplete] = [:]
    /// The last flight of this side.
    private var flight: [Part] = []
    private var largestDatagram = DTLS.handshakeSize
    private var deadline: Int64?
    private var wait = firstWait
    private var repeated = 0
    private var timeouts = 0

    /// Encrypted records that came before the keys.
    private var early: [[UInt8]] = []
    /// Data that was decrypted and not read.
    private var unread = Deque<[UInt8]>()

    init(_ library: ToyTLS, _ settings: TLSSettings, _ sessions: ToySessions, server: String) {
        (self.library, self.settings, self.sessions, self.server) = (library, settings, sessions, server)
        (number, random) = library.addEngine(ofDatagrams: settings.side)
        ownRandom = random.bytes(32)
        sessionID = random.chance(50) ? [] : random.bytes(32)
        filler = random.bytes(random.int(0...300))
        if settings.side == .client, settings.resumesSessions { offered = sessions.session(with: server) }
        // The request of the cookie had the numbers 0.
        if settings.side == .server { (nextSent, nextPlain) = (1, 1) }
    }

    private var isClient: Bool { settings.side == .client }
    private var peerName: String { isClient ? "server" : "client" }
    private var isOpen: Bool { if case .open = phase { true } else { false } }

    // MARK: Calls

    func handshake(_ datagram: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if case .failed(let failure) = phase { return TLSStep(.failed(failure)) }
        if case .start = phase {
            phase = isClient ? .serverHello : .clientHello
            if isClient { sendHello(&output) }
        }
        do throws(TLSFailure) {
            try take(datagram, &output)
        } catch {
            return fail(error)
        }
        guard isOpen else { return TLSStep(hasPeerEnded ? .ended : .needsInput, consumed: datagram.count) }
        describe()
        return TLSStep(.done, consumed: datagram.count)
    }

    func read(
        _ datagram: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        if case .failed(let failure) = phase { return TLSStep(.failed(failure)) }
        do throws(TLSFailure) {
            try take(datagram, &output)
        } catch {
            return fail(error)
        }
        if let data = unread.popFirst() {
            let count = min(data.count, target.count)
            target.copyBytes(from: data.prefix(count))
            return TLSStep(.done, consumed: datagram.count, count: count)
        }
        return TLSStep(hasPeerEnded ? .ended : .needsInput, consumed: datagram.count)
    }

    func write(_ message: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if case .failed(let failure) = phase { return TLSStep(.failed(failure)) }
        guard isOpen, message.count <= DTLS.largestRecord else { return TLSStep(.needsInput) }
        output.addDatagram(sealed(.data, Array(message)))
        return TLSStep(.done, count: message.count)
    }

    func end(_ output: inout TLSOutput) {
        guard isOpen else { return }
        output.addDatagram(sealed(.alert, [1, ToyAlert.closeNotify.rawValue]))
    }

    // MARK: Time

    var timeout: Int64? { deadline.map { max(0, $0 - MonotonicClock.now()) } }

    func timeoutReached(_ output: inout TLSOutput) -> TLSStep {
        guard let deadline, deadline <= MonotonicClock.now() else { return TLSStep(.needsInput) }
        timeouts += 1
        if timeouts == DTLS.timeoutsBeforeSmaller { shrink() }
        repeated += 1
        guard repeated <= Self.repetitions else {
            return fail(TLSFailure(.other, "the \(peerName) does not answer the handshake"))
        }
        wait = min(2 * wait, Self.longestWait)
        self.deadline = MonotonicClock.now() + wait
        sendFlight(&output)
        return TLSStep(.needsInput)
    }

    func shrink() { largestDatagram = DTLS.smallestHandshakeSize }

    // MARK: Flights

    private func part(_ kind: Kind, _ body: [UInt8], isEncrypted: Bool = false) -> Part {
        defer { nextSent &+= 1 }
        return Part(kind: kind, sequence: nextSent, body: body, isEncrypted: isEncrypted)
    }

    /// The change of keys, and the message after it.
    private func finish() -> [Part] {
        [Part(type: .changeOfKeys), part(.finished, finished(settings.side), isEncrypted: true)]
    }

    /// - Parameter isLast: whether no flight of the peer answers this one.
    private func send(_ flight: [Part], isLast: Bool = false, _ output: inout TLSOutput) {
        self.flight = flight
        (wait, repeated) = (Self.firstWait, 0)
        deadline = isLast ? nil : MonotonicClock.now() + wait
        sendFlight(&output)
    }

    private func sendFlight(_ output: inout TLSOutput) {
        var datagram: [UInt8] = []
        for part in flight {
            for record in records(of: part) {
                let isFull = datagram.count + record.count > largestDatagram
                if isFull || !datagram.isEmpty && random.chance(15) {
                    output.addDatagram(datagram)
                    datagram = []
                }
                datagram += record
            }
        }
        if !datagram.isEmpty { output.addDatagram(datagram) }
    }

    private func records(of part: Part) -> [[UInt8]] {
        guard part.type == .handshake else { return [plain(part.type, part.body)] }
        let most = largestDatagram - Self.header - Self.messageHeader - Self.nonce - Self.tag
        var (records, start): ([[UInt8]], Int) = ([], 0)
        repeat {
            let count = min(most, part.body.count - start)
            var message = [part.kind.rawValue] + Self.three(part.body.count)
            message += [UInt8(part.sequence >> 8), UInt8(part.sequence & 255)] + Self.three(start) + Self.three(count)
            message += part.body[start..<(start + count)]
            records.append(part.isEncrypted ? sealed(.handshake, message) : plain(.handshake, message))
            start += count
        } while start < part.body.count
        return records
    }

    private static func three(_ number: Int) -> [UInt8] {
        [UInt8(truncatingIfNeeded: number >> 16), UInt8(truncatingIfNeeded: number >> 8), UInt8(number & 255)]
    }

    // MARK: Messages of the handshake

    private func sendHello(_ output: inout TLSOutput) {
        var body: [UInt8] = [0xfe, 0xfd] + ownRandom + [UInt8(sessionID.count)] + sessionID
        body += [UInt8(cookie.count)] + cookie + (offered?.ticket ?? 0).bytes + [UInt8(settings.protocols.count)]
        for name in settings.protocols { body += [UInt8(truncatingIfNeeded: name.utf8.count)] + Array(name.utf8) }
        send([part(.clientHello, body + filler)], &output)
    }

    /// Takes one complete message.
    private func take(_ kind: Kind?, _ body: [UInt8], _ output: inout TLSOutput) throws(TLSFailure) {
        switch (phase, kind) {
        case (.serverHello, .verifyRequest):
            guard cookie.isEmpty, body.count > 3, body.count == 3 + Int(body[2]) else { return }
            cookie = Array(body[3...])
            sendHello(&output)
        case (.serverHello, .serverHello):
            isResumed = body.count > 32 && body[32] == 1
            if isResumed { secret = offered?.secret ?? 0 }
            useKeys(client: ownRandom.word(at: 0), server: body.word(at: 0))
            let name = String(decoding: body.dropFirst(33), as: UTF8.self)
            selected = name.isEmpty ? nil : name
            phase = isResumed ? .serverFinished : .certificate
        case (.certificate, .certificate): try checkCertificate(body, &output)
        case (.certificate, .serverDone):
            phase = .serverFinished
            send([part(.clientKey, random.bytes(32))] + finish(), &output)
        case (.serverFinished, .ticket):
            sessions.keep(ToySessions.Session(ticket: body.word(at: 0), secret: secret), with: server)
        case (.serverFinished, .finished):
            try checkFinished(body, .server, &output)
            phase = .open
            isResumed ? send(finish(), isLast: true, &output) : endFlight()
        case (.clientHello, .clientHello): try answer(body, &output)
        case (.clientFinished, .clientKey): break
        case (.clientFinished, .finished):
            try checkFinished(body, .client, &output)
            phase = .open
            guard !isResumed else { return endFlight() }
            let session = ToySessions.Session(ticket: random.next(), secret: secret)
            sessions.issue(session)
            let ticket = part(.ticket, session.ticket.bytes + random.bytes(random.int(0...200)))
            send([ticket] + finish(), isLast: true, &output)
        default:
            throw alert(.unexpectedMessage, .brokenRecord, "the \(peerName) broke the order of the handshake", &output)
        }
    }

    /// The peer has the last flight of this side.
    private func endFlight() { (flight, deadline) = ([], nil) }

    private func answer(_ hello: [UInt8], _ output: inout TLSOutput) throws(TLSFailure) {
        var index = 34
        // The session, and the cookie.
        for _ in 0..<2 where index < hello.count { index += 1 + Int(hello[index]) }
        let ticket = hello.word(at: index)
        index += 8
        var offered: [String] = []
        let count = index < hello.count ? hello[index] : 0
        index += 1
        for _ in 0..<count where index < hello.count {
            let end = min(hello.count, index + 1 + Int(hello[index]))
            offered.append(String(decoding: hello[(index + 1)..<end], as: UTF8.self))
            index = end
        }
        selected = settings.protocols.first { offered.contains($0) }
        guard selected != nil || offered.isEmpty || settings.protocols.isEmpty else {
            throw alert(.noProtocol, .noCommonProtocol, "the client offers none of this server's protocols", &output)
        }
        if settings.resumesSessions, let known = sessions.secret(of: ticket), random.chance(80) {
            (isResumed, secret) = (true, known)
        }
        useKeys(client: hello.dropFirst(2).prefix(8).map { $0 }.word(at: 0), server: ownRandom.word(at: 0))
        phase = .clientFinished
        var flight = [part(.serverHello, ownRandom + [isResumed ? 1 : 0] + Array((selected ?? "").utf8))]
        if isResumed {
            flight += finish()
        } else {
            let text = Array((settings.certificate?.text ?? "").utf8)
            let certificate = UInt64(text.count).bytes + text + random.bytes(random.magnitude(10...3000))
            flight += [part(.certificate, certificate), part(.serverDone, [])]
        }
        send(flight, &output)
    }

    /// Derives the keys of both directions. A new session has a new secret.
    private func useKeys(client: UInt64, server: UInt64) {
        if !isResumed { secret = ToyCipher.mix(client ^ ToyCipher.mix(server)) }
        let key = ToyCipher.mix(secret ^ ToyCipher.mix(client &+ server))
        (reader.key, writer.key) = (key &+ (isClient ? 1 : 0), key &+ (isClient ? 0 : 1))
        hasKeys = true
    }

    private func checkCertificate(_ body: [UInt8], _ output: inout TLSOutput) throws(TLSFailure) {
        let length = Int(truncatingIfNeeded: body.word(at: 0))
        let authority = String(decoding: body.dropFirst(8).prefix(max(0, length)), as: UTF8.self)
        guard settings.verifiesServer, authority != settings.authorities?.text ?? "" else { return }
        throw alert(.unknownAuthority, .unknownIssuer, "the issuer of the server's certificate is not trusted", &output)
    }

    private func finished(_ side: TLSSettings.Side) -> [UInt8] {
        let key = reader.key ^ writer.key
        return ToyCipher.mix(key &+ secret &+ (side == .client ? 1 : 2)).bytes
    }

    private func checkFinished(
        _ body: [UInt8],
        _ side: TLSSettings.Side,
        _ output: inout TLSOutput
    ) throws(TLSFailure) {
        guard body != finished(side) else { return }
        throw alert(.badRecord, .brokenRecord, "the last message of the \(peerName)'s handshake is wrong", &output)
    }

    private func describe() {
        guard description == nil else { return }
        description = TLSDescription(
            version: "ToyDTLS",
            cipher: ToyTLS.cipher(number),
            applicationProtocol: selected,
            isResumed: isResumed,
            isVerified: isClient && settings.verifiesServer
        )
    }

    // MARK: Failures

    /// Writes an alert, and returns the failure of this side.
    private func alert(
        _ alert: ToyAlert,
        _ problem: TLSProblem,
        _ sentence: String,
        _ output: inout TLSOutput
    ) -> TLSFailure {
        output.addDatagram(isOpen ? sealed(.alert, [2, alert.rawValue]) : plain(.alert, [2, alert.rawValue]))
        return TLSFailure(problem, sentence)
    }

    private func fail(_ failure: TLSFailure) -> TLSStep {
        phase = .failed(failure)
        endFlight()
        return TLSStep(.failed(failure))
    }

    // MARK: Received records

    /// Takes all records of a datagram. Broken and repeated ones are dropped.
    private func take(_ datagram: UnsafeRawBufferPointer, _ output: inout TLSOutput) throws(TLSFailure) {
        var rest = Array(datagram)[...]
        while rest.count >= Self.header {
            let fields = Array(rest.prefix(Self.header))
            let size = Self.header + (Int(fields[11]) << 8 | Int(fields[12]))
            guard rest.count >= size else { return }
            let record = Array(rest.prefix(size))
            rest = rest.dropFirst(size)
            guard let type = RecordType(rawValue: record[0]) else { continue }
            switch (Int(record[3]) << 8 | Int(record[4]), type) {
            case (0, .handshake): try takeFragment(record.dropFirst(Self.header), isEncrypted: false, &output)
            case (0, .alert) where !isOpen && record.count == Self.header + 2:
                try takeAlert(Array(record.dropFirst(Self.header)))
            case (1, _): try takeEncrypted(record, type, &output)
            default: break
            }
            guard hasKeys, !early.isEmpty else { continue }
            let kept = early
            early = []
            for record in kept {
                if let type = RecordType(rawValue: record[0]) { try takeEncrypted(record, type, &output) }
            }
        }
    }

    private func takeEncrypted(
        _ record: [UInt8],
        _ type: RecordType,
        _ output: inout TLSOutput
    ) throws(TLSFailure) {
        guard hasKeys else {
            if early.count < Self.keptRecords { early.append(record) }
            return
        }
        guard let body = opened(record, type) else { return }
        switch type {
        case .data: if unread.count < Self.keptRecords, !body.isEmpty { unread.append(body) }
        case .alert where body.count == 2: try takeAlert(body)
        case .handshake: try takeFragment(body[...], isEncrypted: true, &output)
        case .alert, .changeOfKeys: break
        }
    }

    private func takeAlert(_ body: [UInt8]) throws(TLSFailure) {
        guard body[1] == ToyAlert.closeNotify.rawValue else {
            throw ToyAlert.failure(Array(body.dropFirst()), from: peerName)
        }
        hasPeerEnded = true
        library.ended(number)
    }

    private func takeFragment(
        _ fragment: ArraySlice<UInt8>,
        isEncrypted: Bool,
        _ output: inout TLSOutput
    ) throws(TLSFailure) {
        let bytes = Array(fragment)
        guard bytes.count >= Self.messageHeader else { return }
        func number(_ index: Int) -> Int {
            Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
        }
        let (length, offset, count) = (number(1), number(6), number(9))
        let sequence = UInt16(bytes[4]) << 8 | UInt16(bytes[5])
        guard length <= DTLS.largestRecord, offset + count <= length, bytes.count == Self.messageHeader + count else {
            return
        }
        if case .clientHello = phase, bytes[0] == Kind.clientHello.rawValue { nextReceived = sequence }
        guard sequence >= nextReceived else {
            // The peer repeats its last flight, because it lacks that of this side.
            if isOpen, isEncrypted, bytes[0] == Kind.finished.rawValue { sendFlight(&output) }
            return
        }
        guard sequence - nextReceived < 8, !isOpen else { return }
        var message =
            incomplete[sequence]
            ?? Incomplete(
                kind: bytes[0],
                body: [UInt8](repeating: 0, count: length),
                isThere: [Bool](repeating: false, count: length)
            )
        guard message.body.count == length, message.kind == bytes[0] else { return }
        for index in 0..<count {
            message.body[offset + index] = bytes[Self.messageHeader + index]
            message.isThere[offset + index] = true
        }
        incomplete[sequence] = message
        while let next = incomplete[nextReceived], next.isThere.allSatisfy({ $0 }) {
            incomplete[nextReceived] = nil
            nextReceived &+= 1
            try take(Kind(rawValue: next.kind), next.body, &output)
        }
    }

    // MARK: Records

    private func plain(_ type: RecordType, _ body: [UInt8]) -> [UInt8] {
        let record = Self.header(type, epoch: 0, nextPlain, body.count) + body
        nextPlain += 1
        if !isClient { library.addOverhead(sent: record.count) }
        return record
    }

    private static func header(_ type: RecordType, epoch: UInt8, _ number: UInt64, _ count: Int) -> [UInt8] {
        let number = (0..<6).map { UInt8(truncatingIfNeeded: number >> (40 - 8 * UInt64($0))) }
        return [type.rawValue, 0xfe, 0xfd, 0, epoch] + number + [UInt8(count >> 8), UInt8(count & 255)]
    }

    private func sealed(_ type: RecordType, _ body: [UInt8]) -> [UInt8] {
        writer.sequence = nextEncrypted
        let check = body.withUnsafeBytes { writer.check($0, type: type.rawValue) }
        var hidden = body + check.bytes + ToyCipher.mix(check).bytes
        hidden.withUnsafeMutableBytes { writer.hide($0) }
        let record =
            Self.header(type, epoch: 1, nextEncrypted, Self.nonce + hidden.count) + nonce(of: writer) + hidden
        nextEncrypted += 1
        if !isClient { library.addOverhead(sent: record.count - (type == .data ? body.count : 0)) }
        return record
    }

    private func nonce(of cipher: ToyCipher) -> [UInt8] { ToyCipher.mix(cipher.key ^ cipher.sequence).bytes }

    /// Decrypts one record. The result is `nil` if it is broken or was received before.
    private func opened(_ record: [UInt8], _ type: RecordType) -> [UInt8]? {
        guard record.count >= Self.header + Self.nonce + Self.tag else { return nil }
        let sequence = record[5..<11].reduce(0) { $0 << 8 | UInt64($1) }
        let isNew = sequence > highest || window == 0
        let age = isNew ? 0 : highest - sequence
        guard isNew || age < 64 && window >> age & 1 == 0 else { return nil }
        reader.sequence = sequence
        guard Array(record[Self.header..<(Self.header + Self.nonce)]) == nonce(of: reader) else { return nil }
        var plain = Array(record[(Self.header + Self.nonce)...])
        plain.withUnsafeMutableBytes { reader.hide($0) }
        let body = Array(plain.dropLast(Self.tag))
        let check = body.withUnsafeBytes { reader.check($0, type: type.rawValue) }
        guard Array(plain.suffix(Self.tag)) == check.bytes + ToyCipher.mix(check).bytes else { return nil }
        if isNew {
            let step = window == 0 ? 64 : sequence - highest
            window = (step < 64 ? window << step : 0) | 1
            highest = sequence
        } else {
            window |= 1 << age
        }
        if !isClient { library.addOverhead(received: record.count - (type == .data ? body.count : 0)) }
        return body
    }
}
