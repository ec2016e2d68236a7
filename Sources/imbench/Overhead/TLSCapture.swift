import CommandSupport
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// One encrypted record: what is on the wire, and what the receiver decrypts.
struct CapturedRecord {
    /// Some bytes of a record that are not data, and their meaning.
    typealias Part = (count: Int, meaning: String)

    /// The bytes of the record.
    var wire: [UInt8]
    /// The data in it. The ciphers used here encrypt it byte by byte, so each byte keeps its place.
    var clear: [UInt8]
    /// The parts before and after the data.
    var before: [Part]
    var after: [Part]

    /// The place of the data.
    var start: Int { before.reduce(0) { $0 + $1.count } }

    /// TLS 1.3 (RFC 8446, sections 5.1 and 5.2).
    static func stream(_ wire: [UInt8], _ clear: [UInt8]) -> CapturedRecord {
        CapturedRecord(
            wire: wire,
            clear: clear,
            before: [(1, "TLS record of data"), (2, "version 1.2, also in TLS 1.3"), (2, "length")],
            after: [(1, "type of the data"), (16, "authentication tag")]
        )
    }

    /// DTLS 1.2 with AES-GCM (RFC 6347, section 4.1; RFC 5288, section 3).
    static func datagram(_ wire: [UInt8], _ clear: [UInt8]) -> CapturedRecord {
        CapturedRecord(
            wire: wire,
            clear: clear,
            before: [
                (1, "DTLS record of data"), (2, "version 1.2"), (2, "number of the keys"), (6, "number of the record"),
                (2, "length"), (8, "nonce"),
            ],
            after: [(16, "authentication tag")]
        )
    }

    /// The fields of the record, of which those of the data are known.
    func fields(around inner: [WireField]) -> [WireField] {
        var reader = WireFieldReader(wire)
        for part in before { reader.take(part.count, part.meaning) }
        let start = reader.position
        let data = inner.map { field in
            WireField(range: field.range.lowerBound + start..<field.range.upperBound + start, meaning: field.meaning)
        }
        let header = reader.fields
        reader.take(clear.count, "data")
        for part in after { reader.take(part.count, part.meaning) }
        return header + data + reader.fields.dropFirst(header.count + (clear.isEmpty ? 0 : 1))
    }

    /// Whether the parts are the whole record.
    fileprivate var isComplete: Bool { start + clear.count + after.reduce(0) { $0 + $1.count } == wire.count }
}

/// An encrypted connection in memory, after its handshake.
enum TLSCapture {
    /// The most data in one record (RFC 8446, section 5.1).
    static let longest = 16_384

    /// Returns the record in which a client sends `bytes`, after a real handshake with a server.
    static func record(of bytes: [UInt8], isDatagram: Bool = false) throws -> CapturedRecord {
        let record = try isDatagram ? datagram(bytes) : stream(bytes)
        guard record.clear == bytes, record.isComplete else {
            throw SystemFailure("the record in memory differs from what was sent")
        }
        return record
    }

    private static func stream(_ bytes: [UInt8]) throws -> CapturedRecord {
        guard let engine = try context(.client, isDatagram: false).makeEngine(host: "localhost", port: 1),
            let serverEngine = try context(.server, isDatagram: false).makeEngine(host: nil, port: 1)
        else { throw noMemory }
        var (client, server) = (StreamSide(engine: engine), StreamSide(engine: serverEngine))
        var toServer = try client.shake([])
        while !client.isReady || !server.isReady {
            toServer = try client.shake(try server.shake(toServer))
            guard !toServer.isEmpty || client.isReady && server.isReady else { throw stopped }
        }
        let wire = try bytes.withUnsafeBytes { data in try client.call { $0.write(data, &$1) } }.output
        var clear = [UInt8](repeating: 0, count: bytes.count)
        _ = try clear.withUnsafeMutableBytes { target in
            try wire.withUnsafeBytes { input in try server.call { $0.read(input, into: target, &$1) } }
        }
        return .stream(wire, clear)
    }

    private static func datagram(_ bytes: [UInt8]) throws -> CapturedRecord {
        let largest = max(bytes.count, 1)
        let (client, server) = (
            try context(.client, isDatagram: true).makeDatagramEngine(host: "localhost", port: 1, largest: largest),
            try context(.server, isDatagram: true).makeDatagramEngine(host: nil, port: 1, largest: largest)
        )
        guard let client, let server else { throw noMemory }
        // The server's first answer is a cookie, which it checks without an engine.
        let hello = try call { client.handshake($0, &$1) }.datagrams.first ?? []
        var random = RandomSource.system()
        var listener = DTLSListenerCore(random: &random)
        var received = ByteBuffer()
        var reply = ByteBuffer()
        hello.withUnsafeBytes { received.append(contentsOf: $0) }
        _ = [0].withUnsafeBytes { address in
            listener.receive(received, from: address, now: Instant.zero, random: &random, reply: &reply)
        }
        var toClient = [reply.bytes(at: 0, count: reply.count) ?? []]
        while client.description == nil || server.description == nil {
            var toServer: [[UInt8]] = []
            for datagram in toClient { toServer += try call(datagram) { client.handshake($0, &$1) }.datagrams }
            toClient = []
            for datagram in toServer { toClient += try call(datagram) { server.handshake($0, &$1) }.datagrams }
            let isDone = client.description != nil && server.description != nil
            guard isDone || !toServer.isEmpty || !toClient.isEmpty else { throw stopped }
        }
        let wire = try call(bytes) { client.write($0, &$1) }.datagrams.first ?? []
        var clear = [UInt8](repeating: 0, count: bytes.count)
        _ = try clear.withUnsafeMutableBytes { target in try call(wire) { server.read($0, into: target, &$1) } }
        return .datagram(wire, clear)
    }

    private static let stopped = SystemFailure("the handshake in memory has stopped")
    private static let noMemory = SystemFailure("there is no memory for an encrypted connection")

    private static func context(_ side: TLSSettings.Side, isDatagram: Bool) throws -> any TLSContext {
        var settings = TLSSettings(side)
        settings.isDatagram = isDatagram
        // Older versions of TLS have other records.
        if !isDatagram { settings.minimumVersion = .tls13 }
        do throws(TLSSetupError) {
            return try TrialTLS().makeContext(settings, password: nil)
        } catch {
            throw SystemFailure("\(error)")
        }
    }

    /// Calls an engine of datagrams, and returns those that it wants to send.
    private static func call(
        _ input: [UInt8] = [],
        _ body: (UnsafeRawBufferPointer, inout TLSOutput) -> TLSStep
    ) throws -> (step: TLSStep, datagrams: [[UInt8]]) {
        try withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { memory in
            var output = TLSOutput(memory)
            let step = input.withUnsafeBytes { body($0, &output) }
            if case .failed(let failure) = step.end { throw SystemFailure(failure.sentence) }
            var datagrams: [[UInt8]] = []
            output.forEachDatagram { datagrams.append(Array($0)) }
            return (step, datagrams)
        }
    }

    /// One side of a stream.
    private struct StreamSide {
        let engine: any TLSEngine
        var isReady = false

        /// Calls the engine, and returns what it wants to send.
        func call(_ body: (any TLSEngine, inout TLSOutput) -> TLSStep) throws -> (step: TLSStep, output: [UInt8]) {
            try withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { memory in
                var output = TLSOutput(memory)
                let step = body(engine, &output)
                if case .failed(let failure) = step.end { throw SystemFailure(failure.sentence) }
                return (step, Array(memory[..<output.count]))
            }
        }

        /// Continues the handshake with the peer's records, and returns those for the peer.
        mutating func shake(_ records: [UInt8]) throws -> [UInt8] {
            var left = records[...]
            var output: [UInt8] = []
            while !isReady {
                // An engine takes one record at a time.
                let length =
                    left.count < 5
                    ? left.count : 5 + Int(left[left.startIndex + 3]) << 8 + Int(left[left.startIndex + 4])
                let (step, sent) = try Array(left.prefix(length)).withUnsafeBytes { record in
                    try call { $0.handshake(record, &$1) }
                }
                output += sent
                left = left.dropFirst(step.consumed)
                if case .done = step.end { isReady = true }
                if step.consumed == 0, sent.isEmpty || left.isEmpty { break }
            }
            return output
        }
    }
}
