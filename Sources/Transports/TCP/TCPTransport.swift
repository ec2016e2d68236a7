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
            // NATs must keep a TCP mapping for 2 h 4 min (RFC 5382, REQ-5), but there is no evidence that many do (RFC
            // 9308, section 3.2), and NATs of operators keep it for 5 to 30 minutes.
            keepalive: .seconds(60),
            security: security,
            clientSettings: TCPSettings.list,
            serverSettings: TCPSettings.list,
            client: { (_, settings) throws(TransportError) in
                let core = try settings.own.core(.client, settings.limits)
                return { core }
            },
            server: { (_, settings, _) throws(TransportError) in
                let core = try settings.own.core(.server, settings.limits)
                return { _ in core }
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
}

/// The settings of length-framed TCP.
private struct TCPSettings: Sendable {
    /// The formats of the stream.
    enum Framing: String, Sendable, CaseIterable { case framed, u16, u32, varint }
    /// The byte orders of u16 and u32.
    enum ByteOrder: String, Sendable, CaseIterable { case big, little }

    var framing = Framing.framed
    var byteOrder: ByteOrder?
    var isHeaderIncluded: Bool?
    var maximumMessageSize = TCPConfiguration().maximumMessageSize

    static let list = SettingList(
        TCPSettings(),
        [
            .init("framing", .word, \.framing, "the length before each message; framed is this package's own format"),
            .init(
                "byte-order",
                SettingFormat<ByteOrder>.word.orAbsent(ByteOrder.big.rawValue.debugDescription),
                \.byteOrder,
                "the byte order of u16 and u32"
            ),
            .init(
                "header-included",
                SettingFormat.flag.orAbsent("false"),
                \.isHeaderIncluded,
                "whether u16 and u32 count their own bytes"
            ),
            .maximumMessageSize(\.maximumMessageSize, atMost: 0x7fff_ffff),
        ],
        check: { (settings, _) throws(TransportError) in
            guard settings.framing == .framed, settings.byteOrder != nil || settings.isHeaderIncluded != nil else {
                return
            }
            throw .configuration("framing", "must be u16 or u32 with byte-order or header-included")
        }
    )

    /// Makes the core. Client and server use the same protocol.
    func core(_ role: CoreRole, _ limits: ConnectionLimits) throws(TransportError) -> any PackageCore {
        var core = try FramedTCPCore(
            TCPConfiguration(
                framing: format,
                maximumMessageSize: maximumMessageSize,
                closeTimeout: limits.closeTimeout
            )
        )
        core.role = role
        return core
    }

    private var format: TCPConfiguration.Framing {
        switch framing {
        case .framed: .framed
        case .u16: plain(.bits16)
        case .u32: plain(.bits32)
        case .varint: plain(.varint)
        }
    }

    private func plain(_ length: TCPConfiguration.LengthField) -> TCPConfiguration.Framing {
        let order: TCPConfiguration.ByteOrder = byteOrder == .little ? .littleEndian : .bigEndian
        return .plain(.init(length: length, byteOrder: order, countsItself: isHeaderIncluded ?? false))
    }
}
