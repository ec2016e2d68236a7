import SocketIO
import TransportAPI

/// Lets the owner of a server hear of what strangers can do as often as they like: of each kind at most one note a second, with
/// how often it happened since the last one.
struct NoteMeter {
    /// What is told together.
    enum Kind: Hashable {
        case datagrams(UDPListenerCore.DropReason)
        case sessions(TransportError.Code)
    }

    /// What happened, the first time of so many.
    struct Note {
        var client: SocketAddress?
        var reason: CloseReason
        var wasOpen = false
        var count = 1
    }

    /// The shortest time between two notes of a kind, in nanoseconds.
    static let pause: Int64 = 1_000_000_000

    private var kinds: [Kind: (next: Int64, waiting: Note?)] = [:]

    /// Counts something; gives the note if it is to be told at once.
    mutating func count(_ kind: Kind, _ note: @autoclosure () -> Note, now: Int64) -> Note? {
        guard let known = kinds[kind], known.next > now || known.waiting != nil else {
            kinds[kind] = (now + Self.pause, nil)
            return note()
        }
        if known.waiting == nil { kinds[kind]?.waiting = note() } else { kinds[kind]?.waiting?.count += 1 }
        return nil
    }

    /// When ``due(_:)`` has something to tell; `nil` if nothing waits.
    var deadline: Int64? { kinds.values.lazy.compactMap { $0.waiting == nil ? nil : $0.next }.min() }

    /// What has waited for long enough.
    mutating func due(_ now: Int64) -> [Note] {
        var notes: [Note] = []
        for (kind, known) in kinds where known.next <= now {
            guard let note = known.waiting else { continue }
            kinds[kind] = (now + Self.pause, nil)
            notes.append(note)
        }
        return notes
    }
}

extension UDPListenerCore.DropReason {
    /// The same as an error.
    var error: TransportError {
        switch self {
        case .malformed: TransportError(.protocolViolation, .handshake, "the datagram is none of this protocol")
        case .unknownSession: TransportError(.notFound, .open, "the datagram belongs to no session")
        case .wrongCookie: TransportError(.handshakeFailed, .handshake, "the cookie is forged or too old")
        case .ended: TransportError(.handshakeFailed, .handshake, "the session that is asked for has ended already")
        case .unreliable:
            TransportError(.unsupported, .handshake, "the reliable mode is off here, or its terms make no sense")
        case .full: .tooMany("there is no room for another session", .handshake)
        case .crowded: .tooMany("there are too many sessions from this address already", .handshake)
        case .backlog: .tooMany("too many sessions wait to be accepted", .handshake)
        case .overload: TransportError(.resourcesExhausted, .open, "more comes than can be worked off")
        }
    }
}
