import Protocols
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of length-framed TCP: `tcp://host:9400`.
    public static let tcp = tcp(nil)

    /// The descriptor of length-framed TCP over TLS: `tls://host:9401`. It needs OpenSSL 3 on the machine.
    public static let tls = tcp(.openSSL)

    /// Returns the descriptor of length-framed TCP.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func tcp(_ security: StreamSecurity?) -> TransportDescriptor {
        var descriptor = TransportDescriptor.stream(
            security == nil ? "tcp" : "tls",
            defaultPort: security == nil ? 9400 : 9401,
            // NATs must keep a TCP mapping for 2 h 4 min (RFC 5382, REQ-5), but NATs of operators keep it for 5 to 30
            // minutes.
            keepalive: .seconds(60),
            options: [
                TransportOption(
                    "framing",
                    "framed, u16, u32 or varint",
                    "the length before each message (framed, this package's own)"
                ),
                TransportOption("byte-order", "big or little", "of u16 and u32 (big)"),
                TransportOption("header-included", "on or off", "whether u16 and u32 count their own bytes (off)"),
            ],
            security: security,
            client: { (endpoint, options) throws(TransportError) in try core(endpoint, options, .client) },
            server: { (endpoint, options, _) throws(TransportError) in
                let core = try core(endpoint, options, .server)
                return { _ in core() }
            }
        )
        descriptor.annotate = annotateFrame
        descriptor.hasPath = false
        descriptor.encryptedName = security == nil ? "tls" : nil
        return descriptor
    }

    /// Annotates the length before a message.
    @Sendable
    static func annotateFrame(_ reader: inout WireFieldReader) {
        let word = reader.number(4)
        reader.take(4, "\(word >> 31 == 1 ? "control frame" : "message"), length \(word & 0x7fff_ffff)")
    }

    /// Makes the core. Client and server use the same protocol.
    private static func core(
        _ endpoint: Endpoint,
        _ options: OptionReader,
        _ role: CoreRole
    ) throws(TransportError) -> @Sendable () -> any ProtocolCore {
        var configuration = TCPConfiguration()
        configuration.framing = try framing(options)
        configuration.maximumMessageSize = try options.maximumMessageSize(
            default: configuration.maximumMessageSize,
            atMost: 0x7fff_ffff
        )
        configuration.closeTimeout = try options.duration("close-timeout") ?? configuration.closeTimeout
        var core = try FramedTCPCore(configuration)
        core.role = role
        return { [core] in core }
    }

    private static func framing(_ options: OptionReader) throws(TransportError) -> TCPConfiguration.Framing {
        let name = try options.choice("framing", ["framed", "u16", "u32", "varint"]) ?? "framed"
        let order = try options.choice("byte-order", ["big", "little"])
        let countsItself = try options.flag("header-included")
        guard name != "framed" else {
            guard order == nil, countsItself == nil else {
                throw .configuration(
                    "framing",
                    "must be u16 or u32 with byte-order or header-included"
                )
            }
            return .framed
        }
        let length: TCPConfiguration.LengthField = name == "u16" ? .bits16 : name == "u32" ? .bits32 : .varint
        return .plain(
            .init(
                length: length,
                byteOrder: order == "little" ? .littleEndian : .bigEndian,
                countsItself: countsItself ?? false
            )
        )
    }
}
