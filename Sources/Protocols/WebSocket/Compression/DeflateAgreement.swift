import TransportAPI

/// What client and server agreed on about permessage-deflate (RFC 7692, section 7.1).
struct DeflateAgreement: Sendable, Hashable {
    /// One side's messages: the window's size, 8 to 15, and whether they refer to those before.
    struct Direction: Sendable, Hashable {
        var windowBits = 15
        var keepsContext = true
    }

    /// What the server sends.
    var server = Direction()
    /// What the client sends.
    var client = Direction()

    static let name = "permessage-deflate"

    /// The value of a client's Sec-WebSocket-Extensions.
    static func offer(_ wishes: WebSocketCompression) -> String {
        var value = name
        if !wishes.peerKeepsContext { value += "; server_no_context_takeover" }
        if !wishes.keepsContext { value += "; client_no_context_takeover" }
        if wishes.peerWindowBits < 15 { value += "; server_max_window_bits=\(wishes.peerWindowBits)" }
        value += "; client_max_window_bits"
        if wishes.windowBits < 15 { value += "=\(wishes.windowBits)" }
        return value
    }

    /// A server's choice: the first of the offers that it can keep to, and its answer's value; `nil` if there is none.
    static func accept(
        _ offers: [WebSocketExtension],
        _ wishes: WebSocketCompression
    ) -> (agreement: DeflateAgreement, answer: String)? {
        offers.lazy.compactMap { DeflateParameters($0, isOffer: true) }.compactMap { accept($0, wishes) }.first
    }

    private static func accept(
        _ offer: DeflateParameters,
        _ wishes: WebSocketCompression
    ) -> (agreement: DeflateAgreement, answer: String)? {
        // No window of 256 bytes: zlib can't compress with one.
        if let asked = offer.serverBits, asked < 9 { return nil }
        var agreement = DeflateAgreement()
        var answer = name
        agreement.server.keepsContext = wishes.keepsContext && !offer.serverForgets
        if !agreement.server.keepsContext { answer += "; server_no_context_takeover" }
        agreement.client.keepsContext = wishes.peerKeepsContext && !offer.clientForgets
        if !agreement.client.keepsContext { answer += "; client_no_context_takeover" }
        agreement.server.windowBits = min(wishes.windowBits, offer.serverBits ?? 15)
        if offer.serverBits != nil || agreement.server.windowBits < 15 {
            answer += "; server_max_window_bits=\(agreement.server.windowBits)"
        }
        if offer.clientLimits {
            agreement.client.windowBits = min(wishes.peerWindowBits, offer.clientBits ?? 15)
            if agreement.client.windowBits < 15 { answer += "; client_max_window_bits=\(agreement.client.windowBits)" }
        }
        return (agreement, answer)
    }

    /// What a server's answer, `members`, means to the client that offered `wishes`; `nil`: no compression.
    static func read(
        _ members: [WebSocketExtension],
        offered wishes: WebSocketCompression?
    ) throws(TransportError) -> DeflateAgreement? {
        guard let first = members.first else { return nil }
        guard let wishes, members.count == 1, first.name == name else {
            throw ClientHandshake.failed("the server chose an extension that was not offered")
        }
        guard let answer = DeflateParameters(first, isOffer: false) else {
            throw ClientHandshake.failed("the server's answer about \(name) has a parameter that it may not have")
        }
        guard wishes.peerKeepsContext || answer.serverForgets,
            wishes.peerWindowBits == 15 || answer.serverBits.map({ $0 <= wishes.peerWindowBits }) == true
        else { throw ClientHandshake.failed("the server accepts \(name), but not what was asked for with it") }
        return DeflateAgreement(
            server: Direction(windowBits: answer.serverBits ?? 15, keepsContext: !answer.serverForgets),
            client: Direction(
                windowBits: min(wishes.windowBits, answer.clientBits ?? 15),
                keepsContext: wishes.keepsContext && !answer.clientForgets
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
    /// Whether `client_max_window_bits` is there, with a value or, in an offer, without.
    var clientLimits = false

    /// Reads one; `nil` if it is not of permessage-deflate, or a parameter is unknown, doubled, or has a wrong value.
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

    /// 8 to 15, without a leading zero.
    private static func bits(_ text: String) -> Int? {
        ["8", "9", "10", "11", "12", "13", "14", "15"].firstIndex(of: text).map { $0 + 8 }
    }
}
