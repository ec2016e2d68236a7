import TransportAPI

// What hostile members of a chat room send (Docs/wire-formats.md, "The session envelope").
extension HostileScript {
    /// How many sessions each client leaves behind before it floods.
    static let zombies = 9

    /// The script of a kind over a stream of messages; `nil` if the kind is not about sessions.
    ///
    /// - Parameters:
    ///   - opened: puts what the transport says first in front of the first frame.
    ///   - framed: the message as the transport carries it.
    static func session(
        _ kind: HostileKind,
        _ opened: @escaping @Sendable ([UInt8]) -> [UInt8],
        framed: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) -> HostileScript? {
        guard kind.isOfSessions else { return nil }
        var script = HostileScript()
        script.freshOpening = { client, visit in
            // Ever another session.
            let session = SessionID(high: UInt64(client), low: UInt64(visit))
            return opened(framed(SessionFrame.hello(session, incarnation: 0, received: 0, attempt: 1).payload.bytes))
        }
        @Sendable func message(_ sequence: Int, _ bytes: [UInt8]) -> [UInt8] {
            framed(SessionFrame.message(UInt64(sequence), Payload(bytes)).payload.bytes)
        }
        switch kind {
        case .roomFlood, .zombieSessions:
            script.turnLoad = { turn in
                (1...notesOfLoad).flatMap { message(turn * notesOfLoad + $0, note) }
            }
            if kind == .zombieSessions { script.leaves = { $0 < zombies } }
        case .hostileText:
            script.turnLoad = { message($0 + 1, slowText) }
            script.pace = 500_000_000
        case .sessionSquatting:
            script.leaves = { _ in true }
        case .sessionHoarding:
            script.turnLoad = { message($0 + 2, hoarded) }
        default: return nil
        }
        return script
    }

    /// A chat message of twelve bytes in protobuf, which has ten of text.
    private static let note: [UInt8] = [0x32, 10] + Array("0123456789".utf8)
    private static let notesOfLoad = 256
    private static let hoarded = [UInt8](repeating: 65, count: 60_000)

    /// A chat message with one attribute, whose key of 8 KiB is a letter and combining marks of two classes in turns.
    private static let slowText: [UInt8] = {
        let key = "a" + (0..<4096).map { $0 % 2 == 0 ? "\u{301}" : "\u{316}" }.joined()
        return Array("{\"attributes\":{\"\(key)\":\"\"}}".utf8)
    }()
}
