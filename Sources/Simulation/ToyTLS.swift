import Primitives
import SocketIO

/// A TLS library for simulations and tests. It has the shape of TLS: flights of handshake records, a check value in each
/// record, alerts, and records without data. The bytes on the wire are not clear text, but they are not secret either.
///
/// All choices come from a seed and the number of the engine, so equal calls give equal bytes. A client trusts a server
/// whose `certificate` has the same text as the client's `ca`. Without both, it trusts the server too.
package final class ToyTLS: TLSProvider {
    private struct State {
        var engines = 0
        var datagrams = (clients: 0, servers: 0)
        var overheadReceived = 0
        var overheadSent = 0
        /// The engines whose peers have sent close_notify.
        var ended: Set<Int> = []
    }

    private static let cipherPrefix = "TOY_"

    private let seed: UInt64
    private let state = Locked(State())

    /// Creates the library.
    ///
    /// - Parameter seed: different seeds give different handshakes and records.
    package init(seed: UInt64) {
        self.seed = seed
    }

    package var readsFiles: Bool { false }

    package func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        ToyContext(self, settings)
    }

    /// How many bytes all engines of servers have received and sent, besides data.
    package var overhead: (received: Int, sent: Int) {
        state.withLock { ($0.overheadReceived, $0.overheadSent) }
    }

    /// How many engines of datagrams were made for servers.
    package var serversOfDatagrams: Int { state.withLock { $0.datagrams.servers } }
    /// How many engines of datagrams were made for clients.
    package var clientsOfDatagrams: Int { state.withLock { $0.datagrams.clients } }

    /// Returns whether the peer of an engine has sent close_notify.
    ///
    /// - Parameter description: the description of the engine's connection.
    package func hasEnded(_ description: TLSDescription) -> Bool {
        guard let number = Int(description.cipher.dropFirst(Self.cipherPrefix.count)) else { return false }
        return state.withLock { $0.ended.contains(number) }
    }

    /// Adds an engine.
    ///
    /// - Parameter side: the side of an engine of datagrams; `nil` for streams.
    func addEngine(ofDatagrams side: TLSSettings.Side? = nil) -> (number: Int, random: SimulationRandom) {
        let number = state.withLock { state in
            state.engines += 1
            if side == .client { state.datagrams.clients += 1 }
            if side == .server { state.datagrams.servers += 1 }
            return state.engines
        }
        return (number, SimulationRandom(seed: seed, stream: 1000 + UInt64(number)))
    }

    func addOverhead(received: Int = 0, sent: Int = 0) {
        state.withLock {
            $0.overheadReceived += received
            $0.overheadSent += sent
        }
    }

    func ended(_ number: Int) {
        state.withLock { _ = $0.ended.insert(number) }
    }

    static func cipher(_ number: Int) -> String { "\(cipherPrefix)\(number)" }
}

private final class ToyContext: TLSContext {
    private let library: ToyTLS
    private let settings: TLSSettings
    private let sessions = ToySessions()

    init(_ library: ToyTLS, _ settings: TLSSettings) {
        (self.library, self.settings) = (library, settings)
    }

    func makeEngine(host: String?, port: UInt16) -> (any TLSEngine)? {
        ToyEngine(library, settings)
    }

    func makeDatagramEngine(host: String?, port: UInt16, largest: Int) -> (any DatagramTLSEngine)? {
        guard settings.isDatagram else { return nil }
        return ToyDatagramEngine(library, settings, sessions, server: "\(host ?? ""):\(port)")
    }
}

/// One connection of ``ToyTLS``.
///
/// The handshake has one of two shapes, which the server chooses. Before both, the server can request a second hello.
///
///     client                     server
///     hello                ──►
///                          ◄──   hello, certificate in several records, finished
///     finished             ──►
///                          ◄──   tickets
///
///     hello                ──►
///                          ◄──   hello, certificate in several records
///     finished             ──►
///                          ◄──   finished, tickets
private final class ToyEngine: TLSEngine {
    /// The kinds of records. The kind is the first encrypted byte.
    private enum Kind: UInt8 {
        case clientHello = 1
        case retry, serverHello, certificate, finished
        /// A record without data, which needs no answer.
        case ticket
        /// A record without data that the peer answers, and the answer.
        case update, updated
        case data, alert

        /// The type in the header of the record (RFC 8446, section 5.1).
        var type: UInt8 {
            switch self {
            case .data: 23
            case .alert: 21
            default: 22
            }
        }
    }

    /// The next record that the handshake waits for.
    private enum Phase {
        case start, clientHello, serverHello, certificate, serverFinished, clientFinished, open
        case failed(TLSFailure)
    }

    private struct Message {
        var kind: Kind
        var body: [UInt8]

        var isCloseNotify: Bool { kind == .alert && body.first == ToyAlert.closeNotify.rawValue }
    }

    private static let header = 5
    /// The kind and the check value of each record.
    private static let wrapping = 1 + 8

    private let library: ToyTLS
    private let settings: TLSSettings
    private let number: Int
    private var random: SimulationRandom
    private(set) var description: TLSDescription?

    private var phase = Phase.start
    /// Records of the handshake that are not in the output yet.
    private var flight: [Message] = []
    private var ownNonce: UInt64
    private var key: UInt64 = 0
    private var reader = ToyCipher()
    private var writer = ToyCipher()
    /// Whether the server requests another hello.
    private var retries: Bool
    /// Whether the server's last record comes after the client's.
    private var isLong: Bool
    private var selected: String?
    /// The parts of the server's certificate that have arrived.
    private var certificate: [UInt8] = []
    /// Data that was decrypted and not read.
    private var unread: [UInt8] = []
    private var readCount = 0
    private var owesAnswer = false
    /// The most data in a record.
    private let recordSize: Int
    /// How many records without data may still be written between those with data.
    private var extraRecords: Int

    init(_ library: ToyTLS, _ settings: TLSSettings) {
        self.library = library
        self.settings = settings
        (number, random) = library.addEngine()
        ownNonce = random.next()
        retries = random.chance(20)
        isLong = random.chance(30)
        recordSize = random.one(of: [16_384, 16_384, 16_384, 1400, 200])
        extraRecords = random.int(0...4)
    }

    private var isClient: Bool { settings.side == .client }
    private var peerName: String { isClient ? "server" : "client" }

    var pending: Int { unread.count - readCount }

    // MARK: The handshake

    func handshake(_ input: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if case .start = phase {
            if isClient { sendHello(cookie: 0) }
            phase = isClient ? .serverHello : .clientHello
        }
        if !input.isEmpty {
            do throws(TLSFailure) {
                let message = try open(input, &output)
                if message.isCloseNotify { return TLSStep(.ended, consumed: input.count) }
                try take(message, &output)
            } catch {
                return fail(error, consumed: input.count)
            }
        }
        while let message = flight.first {
            guard seal(message.kind, message.body, &output) else {
                return TLSStep(.needsOutput, consumed: input.count)
            }
            flight.removeFirst()
            if message.kind == .serverHello { writer.key = key }
            // Now and then, the rest needs another call, as if the output were full.
            if !flight.isEmpty, random.chance(10) { return TLSStep(.needsOutput, consumed: input.count) }
        }
        guard case .open = phase else { return TLSStep(.needsInput, consumed: input.count) }
        if description == nil { describe() }
        return TLSStep(.done, consumed: input.count)
    }

    /// Takes one record of the handshake.
    private func take(_ message: Message, _ output: inout TLSOutput) throws(TLSFailure) {
        let body = message.body
        switch (phase, message.kind) {
        case (.clientHello, .clientHello):
            if retries {
                retries = false
                return flight.append(Message(kind: .retry, body: random.bytes(8)))
            }
            try answer(body, &output)
        case (.serverHello, .retry): sendHello(cookie: body.word(at: 0))
        case (.serverHello, .serverHello):
            useKey(client: ownNonce, server: body.word(at: 0))
            (reader.key, writer.key) = (key, key)
            isLong = body.count > 8 && body[8] == 1
            let name = String(decoding: body.dropFirst(9), as: UTF8.self)
            selected = name.isEmpty ? nil : name
            phase = .certificate
        case (.certificate, .certificate):
            certificate += body.dropFirst()
            guard body.first == 1 else { return }
            try checkCertificate(&output)
            if isLong { flight.append(finished(.client)) }
            phase = .serverFinished
        case (.serverFinished, .finished):
            try checkFinished(body, .server, &output)
            if !isLong { flight.append(finished(.client)) }
            phase = .open
        case (.clientFinished, .finished):
            try checkFinished(body, .client, &output)
            if isLong { flight.append(finished(.server)) }
            for _ in 0..<random.int(0...2) { flight.append(ticket()) }
            phase = .open
        case (_, .alert): throw ToyAlert.failure(body, from: peerName)
        default:
            throw alert(.unexpectedMessage, .brokenRecord, "the \(peerName) broke the order of the handshake", &output)
        }
    }

    private func sendHello(cookie: UInt64) {
        var body = ownNonce.bytes + cookie.bytes + [UInt8(settings.protocols.count)]
        for name in settings.protocols { body += [UInt8(truncatingIfNeeded: name.utf8.count)] + Array(name.utf8) }
        flight.append(Message(kind: .clientHello, body: body + random.bytes(random.int(0...300))))
    }

    /// Answers the client's hello.
    private func answer(_ hello: [UInt8], _ output: inout TLSOutput) throws(TLSFailure) {
        var offered: [String] = []
        var index = 17
        for _ in 0..<(hello.count > 16 ? hello[16] : 0) where index < hello.count {
            let end = min(hello.count, index + 1 + Int(hello[index]))
            offered.append(String(decoding: hello[(index + 1)..<end], as: UTF8.self))
            index = end
        }
        selected = settings.protocols.first { offered.contains($0) }
        guard selected != nil || offered.isEmpty || settings.protocols.isEmpty else {
            throw alert(.noProtocol, .noCommonProtocol, "the client offers none of this server's protocols", &output)
        }
        useKey(client: hello.word(at: 0), server: ownNonce)
        // The writer's key changes after the server's hello.
        reader.key = key
        flight.append(
            Message(kind: .serverHello, body: ownNonce.bytes + [isLong ? 1 : 0] + Array((selected ?? "").utf8))
        )
        let text = Array((settings.certificate?.text ?? "").utf8)
        let whole = UInt64(text.count).bytes + text + random.bytes(random.magnitude(10...3000))
        let parts = random.int(1...3)
        for part in 1...parts {
            let range = whole.count * (part - 1) / parts..<whole.count * part / parts
            flight.append(Message(kind: .certificate, body: [part == parts ? 1 : 0] + whole[range]))
        }
        if !isLong { flight.append(finished(.server)) }
        phase = .clientFinished
    }

    private func useKey(client: UInt64, server: UInt64) {
        key = ToyCipher.mix(client ^ ToyCipher.mix(server))
    }

    private func checkCertificate(_ output: inout TLSOutput) throws(TLSFailure) {
        let length = Int(truncatingIfNeeded: certificate.word(at: 0))
        let authority = String(decoding: certificate.dropFirst(8).prefix(max(0, length)), as: UTF8.self)
        guard settings.verifiesServer, authority != settings.authorities?.text ?? "" else { return }
        throw alert(.unknownAuthority, .unknownIssuer, "the issuer of the server's certificate is not trusted", &output)
    }

    private func finished(_ side: TLSSettings.Side) -> Message {
        Message(kind: .finished, body: ToyCipher.mix(key &+ (side == .client ? 1 : 2)).bytes)
    }

    private func checkFinished(
        _ body: [UInt8],
        _ side: TLSSettings.Side,
        _ output: inout TLSOutput
    ) throws(TLSFailure) {
        guard body != finished(side).body else { return }
        throw alert(.badRecord, .brokenRecord, "the last record of the \(peerName)'s handshake is wrong", &output)
    }

    private func ticket() -> Message {
        Message(kind: .ticket, body: random.bytes(random.int(0...200)))
    }

    private func describe() {
        description = TLSDescription(
            version: "ToyTLS",
            cipher: ToyTLS.cipher(number),
            applicationProtocol: selected,
            isVerified: isClient && settings.verifiesServer
        )
    }

    // MARK: Data

    func read(
        _ input: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer,
        _ output: inout TLSOutput
    ) -> TLSStep {
        if case .failed(let failure) = phase { return TLSStep(.failed(failure)) }
        var consumed = 0
        if pending == 0, !input.isEmpty {
            consumed = input.count
            do throws(TLSFailure) {
                let message = try open(input, &output)
                switch message.kind {
                case .data: (unread, readCount) = (message.body, 0)
                case .ticket, .updated: break
                case .update: owesAnswer = true
                case .alert where message.isCloseNotify:
                    library.ended(number)
                    return TLSStep(.ended, consumed: consumed)
                case .alert: throw ToyAlert.failure(message.body, from: peerName)
                default:
                    throw alert(.unexpectedMessage, .brokenRecord, "the \(peerName) continues the handshake", &output)
                }
            } catch {
                return fail(error, consumed: consumed)
            }
        }
        guard answerUpdate(&output) else { return TLSStep(.needsOutput, consumed: consumed) }
        let count = min(pending, target.count)
        guard count > 0 else { return TLSStep(.needsInput, consumed: consumed) }
        unread.withUnsafeBytes {
            target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[readCount..<readCount + count]))
        }
        readCount += count
        return TLSStep(.done, consumed: consumed, count: count)
    }

    func write(_ bytes: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        if case .failed(let failure) = phase { return TLSStep(.failed(failure)) }
        if extraRecords > 0, random.chance(30) {
            extraRecords -= 1
            let extra = random.one(of: [ticket(), Message(kind: .update, body: []), Message(kind: .data, body: [])])
            guard seal(extra.kind, extra.body, &output) else { return TLSStep(.needsOutput) }
        }
        let count = min(bytes.count, recordSize)
        guard answerUpdate(&output), seal(.data, UnsafeRawBufferPointer(rebasing: bytes[..<count]), &output) else {
            return TLSStep(.needsOutput)
        }
        return TLSStep(.done, count: count)
    }

    /// Answers a request of the peer. Returns `false` if the output is full.
    private func answerUpdate(_ output: inout TLSOutput) -> Bool {
        guard owesAnswer else { return true }
        guard seal(.updated, [], &output) else { return false }
        owesAnswer = false
        return true
    }

    func end(_ output: inout TLSOutput) -> TLSStep {
        if case .open = phase { _ = seal(.alert, [ToyAlert.closeNotify.rawValue], &output) }
        return TLSStep(.done)
    }

    // MARK: Failures

    /// Writes an alert, and returns the failure of this side.
    private func alert(
        _ alert: ToyAlert,
        _ problem: TLSProblem,
        _ sentence: String,
        _ output: inout TLSOutput
    ) -> TLSFailure {
        _ = seal(.alert, [alert.rawValue], &output)
        return TLSFailure(problem, sentence)
    }

    private func fail(_ failure: TLSFailure, consumed: Int) -> TLSStep {
        phase = .failed(failure)
        flight = []
        return TLSStep(.failed(failure), consumed: consumed)
    }

    // MARK: Records

    private func seal(_ kind: Kind, _ body: [UInt8], _ output: inout TLSOutput) -> Bool {
        body.withUnsafeBytes { seal(kind, $0, &output) }
    }

    /// Writes one record. Returns `false` if the output is full.
    private func seal(_ kind: Kind, _ body: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> Bool {
        let length = Self.wrapping + body.count
        guard output.memory.count - output.count >= Self.header + length else { return false }
        let record = UnsafeMutableRawBufferPointer(
            rebasing: output.memory[output.count..<output.count + Self.header + length]
        )
        record.copyBytes(from: [kind.type, 3, 3, UInt8(length >> 8), UInt8(length & 255), kind.rawValue])
        let plain = UnsafeMutableRawBufferPointer(rebasing: record[Self.header...])
        UnsafeMutableRawBufferPointer(rebasing: plain[1...]).copyMemory(from: body)
        let check = writer.check(UnsafeRawBufferPointer(rebasing: plain[..<(1 + body.count)]), type: kind.type)
        plain.storeBytes(of: check, toByteOffset: 1 + body.count, as: UInt64.self)
        writer.hide(plain)
        writer.sequence += 1
        output.count += Self.header + length
        if !isClient { library.addOverhead(sent: Self.header + length - (kind == .data ? body.count : 0)) }
        return true
    }

    /// Decrypts one record, and checks it.
    private func open(_ record: UnsafeRawBufferPointer, _ output: inout TLSOutput) throws(TLSFailure) -> Message {
        var plain = Array(record.dropFirst(Self.header))
        guard plain.count >= Self.wrapping else { throw broken(&output) }
        let bodyEnd = plain.count - 8
        let isValid = plain.withUnsafeMutableBytes { bytes in
            reader.hide(bytes)
            let check = bytes.loadUnaligned(fromByteOffset: bodyEnd, as: UInt64.self)
            return check == reader.check(UnsafeRawBufferPointer(rebasing: bytes[..<bodyEnd]), type: record[0])
        }
        guard isValid, let kind = Kind(rawValue: plain[0]) else { throw broken(&output) }
        reader.sequence += 1
        if !isClient {
            library.addOverhead(received: record.count - (kind == .data ? plain.count - Self.wrapping : 0))
        }
        return Message(kind: kind, body: Array(plain[1..<bodyEnd]))
    }

    private func broken(_ output: inout TLSOutput) -> TLSFailure {
        alert(.badRecord, .brokenRecord, "a record of the \(peerName) cannot be decrypted", &output)
    }
}
