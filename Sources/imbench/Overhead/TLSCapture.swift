import SocketIO
import TransportAPI
import Transports

/// One TLS record: what is on the wire, and what the receiver decrypts.
struct CapturedRecord {
    /// The bytes of the record, with its header.
    var wire: [UInt8]
    /// The data in it. Its bytes are encrypted one by one, so they have the same places behind the header.
    var clear: [UInt8]

    /// The bytes of the header: type, version and length (RFC 8446, section 5.1).
    static let header = 5
    /// The bytes behind the data: its type, which is encrypted too, and the tag (RFC 8446, section 5.2).
    static let trailer = 1 + 16

    /// The fields of the record, of which those of the data are known.
    func fields(around inner: [WireField]) -> [WireField] {
        let end = Self.header + clear.count
        let before = [(0..<1, "TLS record of data"), (1..<3, "version 1.2, also in TLS 1.3"), (3..<5, "length")]
        let after = [(end..<end + 1, "type of the data"), (end + 1..<wire.count, "authentication tag")]
        return before.map { WireField(range: $0, meaning: $1) }
            + inner.map { field in
                let range = field.range.lowerBound + Self.header..<field.range.upperBound + Self.header
                return WireField(range: range, meaning: field.meaning)
            }
            + after.map { WireField(range: $0, meaning: $1) }
    }
}

/// A TLS connection in memory, after its handshake.
enum TLSCapture {
    /// The most data in one record (RFC 8446, section 5.1).
    static let longest = 16_384

    /// Returns the record in which a client sends `bytes`, after a real handshake with a server.
    static func record(of bytes: [UInt8]) throws -> CapturedRecord {
        var client = try Side(.client, host: "localhost")
        var server = try Side(.server, host: nil)
        var toServer = try client.shake([])
        while !client.isReady || !server.isReady {
            let toClient = try server.shake(toServer)
            toServer = try client.shake(toClient)
            guard !toServer.isEmpty || client.isReady && server.isReady else {
                throw SystemFailure("the TLS handshake in memory has stopped")
            }
        }
        let wire = try bytes.withUnsafeBytes { data in try client.call { $0.write(data, &$1) } }.output
        var clear = [UInt8](repeating: 0, count: bytes.count)
        let step = try clear.withUnsafeMutableBytes { target in
            try wire.withUnsafeBytes { input in try server.call { $0.read(input, into: target, &$1) } }.step
        }
        guard step.count == bytes.count, clear == bytes,
            wire.count == CapturedRecord.header + bytes.count + CapturedRecord.trailer
        else { throw SystemFailure("the record in memory differs from what was sent") }
        return CapturedRecord(wire: wire, clear: clear)
    }

    private struct Side {
        let engine: any TLSEngine
        var isReady = false

        init(_ side: TLSSettings.Side, host: String?) throws {
            var settings = TLSSettings(side)
            // Older versions have other records.
            settings.minimumVersion = .tls13
            let context: any TLSContext
            do throws(TLSSetupError) {
                context = try TrialTLS().makeContext(settings, password: nil)
            } catch {
                throw SystemFailure("\(error)")
            }
            guard let engine = context.makeEngine(host: host, port: 1) else {
                throw SystemFailure("there is no memory for a TLS connection")
            }
            self.engine = engine
        }

        /// Calls the engine, and returns what it wants to send.
        func call(_ body: (any TLSEngine, inout TLSOutput) -> TLSStep) throws(SystemFailure) -> (
            step: TLSStep, output: [UInt8]
        ) {
            var step = TLSStep(.done)
            let output = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
                var output = TLSOutput(UnsafeMutableRawBufferPointer(buffer))
                step = body(engine, &output)
                count = output.count
            }
            if case .failed(let failure) = step.end { throw SystemFailure(failure.sentence) }
            return (step, output)
        }

        /// Continues the handshake with the peer's records, and returns those for the peer.
        mutating func shake(_ records: [UInt8]) throws -> [UInt8] {
            var left = records[...]
            var output: [UInt8] = []
            while !isReady {
                // An engine takes one record at a time.
                let length =
                    left.count < CapturedRecord.header
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
