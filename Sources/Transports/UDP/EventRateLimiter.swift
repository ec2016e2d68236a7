import Protocols
import SocketIO
import TransportAPI

/// Lets the owner of a server hear of what strangers can do as often as they like: of each kind at most one note a second, with
/// how often it happened since the last one.
struct EventRateLimiter {
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

    /// What is counted of one kind. In a flood each datagram comes by here, so that counting one more touches nothing else.
    private struct Tally {
        /// When a note may be told again.
        var next = Int64.min
        /// How many there were since the last note, and the first of them.
        var waiting = 0
        var first: Note?

        mutating func count(_ note: () -> Note, _ now: Int64) -> Note? {
            guard waiting > 0 || next > now else {
                next = now + EventRateLimiter.pause
                return note()
            }
            if waiting == 0 { first = note() }
            waiting += 1
            return nil
        }

        /// The note that has waited for long enough.
        mutating func due(_ now: Int64) -> Note? {
            guard next <= now, var note = first.take() else { return nil }
            note.count = waiting
            (next, waiting) = (now + EventRateLimiter.pause, 0)
            return note
        }
    }

    private var tallies: [Kind: Tally] = [:]

    /// Counts something; gives the note if it is to be told at once. Its contents are asked for once in a second or less.
    mutating func count(_ kind: Kind, _ note: @autoclosure () -> Note, now: Int64) -> Note? {
        tallies[kind, default: Tally()].count(note, now)
    }

    /// When ``due(_:)`` has something to tell; `nil` if nothing waits.
    var deadline: Int64? { tallies.values.lazy.filter { $0.waiting > 0 }.map(\.next).min() }

    /// What has waited for long enough.
    mutating func due(_ now: Int64) -> [Note] {
        var notes: [Note] = []
        for kind in Array(tallies.keys) {
            if let note = tallies[kind]?.due(now) { notes.append(note) }
        }
        return notes
    }
}

extension UDPListenerCore.DropReason {
    /// The same as an error.
    var error: TransportError {
        switch self {
        case .malformed:
            TransportError(
                .protocolViolation,
                .handshake,
                "the datagram is not of this protocol; for datagrams without sessions set plain=on"
            )
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
