import Protocols

/// Decides which datagrams of its handshake a client gives to its engine, and when.
///
/// Any host can send an alert that is not encrypted, and many alerts end a supervisor for ever. So an alert waits, and is
/// forgotten if the handshake continues. That of a server that does not know this client never goes to the engine before the
/// server has sent something else.
struct DTLSHandshakeFilter {
    /// How long an alert waits for the handshake to continue, in nanoseconds.
    static let alertPause: Int64 = 1_000_000_000
    /// How long before the end of the attempt it goes to the engine at the latest, in nanoseconds.
    static let alertMargin: Int64 = 5_000_000

    private let deadline: Int64
    /// The alert that came since the handshake last continued, and when it goes to the engine.
    private var alert: (datagram: [UInt8], due: Int64)?
    /// Whether the server has continued the handshake.
    private var hasRecord = false
    /// Whether an alert came that plain servers send.
    private var hasPlainAlert = false
    /// How many datagrams came that are not DTLS.
    private var foreignDatagrams = 0
    /// How many datagrams were sent when the handshake last continued.
    private var sentBefore: UInt64 = 0
    /// How many flights of this side the server has answered.
    private(set) var roundTrips = 0

    /// Begins a handshake.
    ///
    /// - Parameter deadline: When the attempt ends, in nanoseconds of ``MonotonicClock``.
    init(deadline: Int64) {
        self.deadline = deadline
    }

    /// Handles a datagram. Returns the part of it that goes to the engine at once.
    ///
    /// - Parameter sent: How many datagrams this side has sent.
    mutating func receive(_ datagram: UnsafeRawBufferPointer, sent: UInt64, now: Int64) -> UnsafeRawBufferPointer {
        guard DTLSRecord(datagram) != nil else {
            foreignDatagrams += 1
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        let parts = DTLSRecord.HandshakeParts(datagram)
        if parts.continuesHandshake {
            hasRecord = true
            alert = nil
            if sent > sentBefore { roundTrips += 1 }
            sentBefore = sent
        }
        if !parts.alert.isEmpty { keep(parts.alert, now) }
        return parts.beginning
    }

    private mutating func keep(_ datagram: UnsafeRawBufferPointer, _ now: Int64) {
        if !hasRecord, DTLSRecord(datagram)?.isUnexpectedMessage(datagram) == true {
            hasPlainAlert = true
        } else if let alert {
            // A warning must not hide the reason that follows.
            let isFatal = alert.datagram.withUnsafeBytes { DTLSRecord.isFatal($0) }
            if !isFatal { self.alert?.datagram = Array(datagram) }
        } else {
            alert = (Array(datagram), max(min(now + Self.alertPause, deadline - Self.alertMargin), now + 1))
        }
    }

    /// When to give the alert that waits to the engine, in nanoseconds; `nil` if none waits.
    var alertDue: Int64? { alert?.due }

    /// Returns the alert, which does not wait any more.
    mutating func takeAlert() -> [UInt8]? {
        alert.take()?.datagram
    }

    /// Why the handshake was not complete in time.
    var lateSentence: String {
        if hasPlainAlert {
            return
                "the server refused the DTLS handshake by the alert that plain servers send: use udp://, or the port where the server speaks DTLS"
        }
        if foreignDatagrams > 0 {
            return
                "the server answered the DTLS handshake with \(foreignDatagrams) datagrams that are not DTLS: compare the scheme and the port"
        }
        return hasRecord
            ? "the server did not complete the DTLS handshake in time"
            : "the server did not answer the DTLS handshake: compare the port, and whether the server listens with dtls://"
    }
}
