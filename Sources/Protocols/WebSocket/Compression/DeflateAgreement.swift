import TransportAPI

/// The parameters of permessage-deflate that client and server have agreed on (RFC 7692, section 7.1).
struct DeflateAgreement: Sendable, Hashable {
    /// The messages of one side: the size of the window as a power of two, 8 to 15, and whether messages refer to
    /// earlier ones.
    struct Direction: Sendable, Hashable {
        var windowBits = 15
        var keepsContext = true
    }

    /// The messages that the server sends.
    var server = Direction()
    /// The messages that the client sends.
    var client = Direction()

    static let name = "permessage-deflate"

    /// Returns the value of a client's Sec-WebSocket-Extensions header.
    static func offer(_ settings: WebSocketCompression) -> String {
        var value = name
        if !settings.peerKeepsContext { value += "; server_no_context_takeover" }
        if !settings.keepsContext { value += "; client_no_context_takeover" }
        if settings.peerWindowBits < 15 { value += "; server_max_window_bits=\(settings.peerWindowBits)" }
        value += "; client_max_window_bits"
        if settings.windowBits < 15 { value += "=\(settings.windowBits)" }
        return value
    }

    /// Returns a server's choice, which is the first offer that it can satisfy, and the value of its answer. Returns
    /// `nil` if it can satisfy none.
    static func accept(
        _ offers: [WebSocketExtension],
        _ settings: WebSocketCompression
    ) -> (agreement: DeflateAgreement, answer: String)? {
        offers.lazy.compactMap { DeflateParameters($0, isOffer: true) }.compactMap { accept($0, settings) }.first
    }

    private static func accept(
        _ offer: DeflateParameters,
        _ settings: WebSocketCompression
    ) -> (agreement: DeflateAgreement, answer: String)? {
        // A window of 256 bytes is refused, because zlib cannot compress with one.
        if let asked = offer.serverBits, asked < 9 { return nil }
        var agreement = DeflateAgreement()
        var answer = name
        agreement.server.keepsContext = settings.keepsContext && !offer.serverForgets
        if !agreement.server.keepsContext { answer += "; server_no_context_takeover" }
        agreement.client.keepsContext = settings.peerKeepsContext && !offer.clientForgets
        if !agreement.client.keepsContext { answer += "; client_no_context_takeover" }
        agreement.server.windowBits = min(settings.windowBits, offer.serverBits ?? 15)
        if offer.serverBits != nil || agreement.server.windowBits < 15 {
            answer += "; server_max_window_bits=\(agreement.server.windowBits)"
        }
        if offer.clientLimits {
            agreement.client.windowBits = min(settings.peerWindowBits, offer.clientBits ?? 15)
            if agreement.client.windowBits < 15 { answer += "; client_max_window_bits=\(agreement.client.windowBits)" }
        }
        return (agreement, answer)
    }

    /// Reads the server's answer for the client that offered `settings`. Returns `nil` if the answer chooses no
    /// compression.
    ///
    /// - Throws: `.handshakeFailed` if the answer does not fit the offer.
    static func read(
        _ members: [WebSocketExtension],
        offered settings: WebSocketCompression?
    ) throws(TransportError) -> DeflateAgreement? {
        guard let first = members.first else { return nil }
        guard let settings, members.count == 1, first.name == name else {
            throw ClientHandshake.failed("the server chose an extension that was not offered")
        }
        guard let answer = DeflateParameters(first, isOffer: false) else {
            throw ClientHandshake.failed("the server's answer about \(name) has a parameter that is not allowed")
        }
        guard settings.peerKeepsContext || answer.serverForgets,
            settings.peerWindowBits == 15 || answer.serverBits.map({ $0 <= settings.peerWindowBits }) == true
        else { throw ClientHandshake.failed("the server accepts \(name), but without the offered parameters") }
        return DeflateAgreement(
            server: Direction(windowBits: answer.serverBits ?? 15, keepsContext: !answer.serverForgets),
            client: Direction(
                windowBits: min(settings.windowBits, answer.clientBits ?? 15),
                keepsContext: settings.keepsContext && !answer.clientForgets
            )
        )
    }
}

/// The parameters of one offer or answer.
struct DeflateParameters: Sendable, Hashable {
    var serverForgets = false
    var clientForgets = false
    var serverBits: Int?
    var clientBits: Int?
    /// Whether `client_max_window_bits` is present. In an offer it may have no value.
    var clientLimits = false

    /// Reads one offer or answer. Returns `nil` if it is not for permessage-deflate, or if a parameter is unknown,
    /// repeated, or has a wrong value.
    init?(_ member: WebSocketExtension, isOffer: Bool) {
        guard member.name == DeflateAgreement.name else { return nil }
        var seen: Set<String> = []
        for parameter in member.parameters {
            guard seen.insert(parameter.name).inserted else { return nil }
            switch (parameter.name, parameter.value) {
            case ("server_no_context_takeover", nil): serverForgets = true
            case ("client_no_context_takeover", nil): clientForgets = true
            case ("server_max_window_bits", let value?):
                guard let bits = Self.bits(value) else { return nil }
                serverBits = bits
            case ("client_max_window_bits", let value?):
                guard let bits = Self.bits(value) else { return nil }
                clientBits = bits
                clientLimits = true
            case ("client_max_window_bits", nil) where isOffer: clientLimits = true
            default: return nil
            }
        }
    }

    /// Parses 8 to 15, without a leading zero.
    private static func bits(_ text: String) -> Int? {
        ["8", "9", "10", "11", "12", "13", "14", "15"].firstIndex(of: text).map { $0 + 8 }
    }
}
