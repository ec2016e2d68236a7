import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Limits the events about the actions of untrusted peers, who can repeat these actions as often as they like. The
/// owner of a server receives at most one event of each kind per second. The event contains the number of occurrences
/// since the last one.
struct EventRateLimiter {
    /// The occurrences that share one event.
    enum Kind: Hashable {
        case datagrams(UDPListenerCore.DropReason)
        case sessions(TransportError.Code)
    }

    /// The first of several occurrences.
    struct Event {
        var client: SocketAddress?
        var reason: CloseReason
        var wasOpen = false
        var count = 1
    }

    /// The shortest time between two events of a kind, in nanoseconds.
    static let pause: Int64 = 1_000_000_000

    /// The count of one kind. In a flood it is updated for each datagram, so an update changes only this value.
    private struct Tally {
        /// The time from which the next event is allowed.
        var next = Int64.min
        /// The number of occurrences since the last event.
        var waiting = 0
        /// The first of these occurrences.
        var first: Event?

        mutating func count(_ note: () -> Event, _ now: Int64) -> Event? {
            guard waiting > 0 || next > now else {
                next = now + EventRateLimiter.pause
                return note()
            }
            if waiting == 0 { first = note() }
            waiting += 1
            return nil
        }

        /// Returns the event that has waited long enough.
        mutating func due(_ now: Int64) -> Event? {
            guard next <= now, var note = first.take() else { return nil }
            note.count = waiting
            (next, waiting) = (now + EventRateLimiter.pause, 0)
            return note
        }
    }

    private var tallies: [Kind: Tally] = [:]

    /// Counts an occurrence, and returns the event if it is allowed now. `note` is evaluated at most twice a second for
    /// each kind.
    mutating func count(_ kind: Kind, _ note: @autoclosure () -> Event, now: Int64) -> Event? {
        tallies[kind, default: Tally()].count(note, now)
    }

    /// The time at which ``due(_:)`` returns an event, or `nil` if none waits.
    var deadline: Int64? { tallies.values.lazy.filter { $0.waiting > 0 }.map(\.next).min() }

    /// Returns the events that have waited long enough.
    mutating func due(_ now: Int64) -> [Event] {
        var events: [Event] = []
        for kind in Array(tallies.keys) {
            if let note = tallies[kind]?.due(now) { events.append(note) }
        }
        return events
    }
}

extension UDPListenerCore.DropReason {
    /// The reason as an error.
    var error: TransportError {
        switch self {
        case .malformed:
            TransportError(
                .protocolViolation,
                .handshake,
                "the datagram does not belong to this protocol; for datagrams without sessions set plain=on"
            )
        case .encrypted:
            TransportError(
                .handshakeFailed,
                .handshake,
                "the client speaks DTLS; this listener is plain: use udp://",
                detail: TLSProblem.unexpectedTLS.rawValue
            )
        case .unknownSession: TransportError(.notFound, .open, "the datagram belongs to no session")
        case .wrongCookie: TransportError(.handshakeFailed, .handshake, "the cookie is forged or too old")
        case .ended: TransportError(.handshakeFailed, .handshake, "the requested session has ended already")
        case .unreliable:
            TransportError(.unsupported, .handshake, "the reliable mode is off here, or its terms are invalid")
        case .full: .tooMany("there is no room for another session", .handshake)
        case .crowded: .tooMany("there are too many sessions from this address already", .handshake)
        case .backlog: .tooMany("too many sessions wait to be accepted", .handshake)
        case .overload: TransportError(.resourcesExhausted, .open, "more datagrams arrive than can be processed")
        }
    }
}
