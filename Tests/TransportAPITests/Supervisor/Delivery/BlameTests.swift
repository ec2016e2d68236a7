import Testing

@testable import TransportAPI

/// The evidence that sets a message aside.
@Suite("Blame for the end of a connection")
struct BlameTests {
    private static let tooLarge = CloseReason(peerClosed: 1009, text: "too big")
    private static let reset = CloseReason(TransportError(.connectionReset, .open, "read: reset by peer", detail: 104))

    /// Ends a connection for this reason with these messages in flight.
    private func end(_ blame: inout Blame, _ reason: CloseReason, _ numbers: UInt64...) -> SendOutcome? {
        blame.ended(Blame.Evidence(reason), inFlight: numbers.map { MessageID($0) })
    }

    @Test(
        "A cause that fits a message is one that the peer names: close code 1003, 1007 or 1009, or the refusal of a session"
    )
    func named() {
        for code in [1003, 1007, 1009] as [UInt16] {
            let reason = CloseReason(peerClosed: code, text: "")
            #expect(reason.initiator == .peer && Blame.Evidence(reason).namesMessage)
        }
        #expect(Blame.Evidence(CloseReason(SessionFrame.Refusal.broken.error)).namesMessage)
        // This side refuses a message of the peer.
        let own = TransportError(.messageTooLarge, .open, "the message is too large", detail: 1009)
        #expect(Blame.Evidence(CloseReason(own)) == .none)
    }

    @Test("A FIN, a reset, a close without a code and the failure of the peer are unexplained")
    func unexplained() {
        let lost = TransportError(.connectionLost, .open, "the connection ended without a close frame")
        let reasons = [
            Self.reset, CloseReason(lost), CloseReason(.peer), CloseReason(.network),
            CloseReason(peerClosed: 1005, text: ""),
            CloseReason(peerClosed: 1011, text: ""),
            CloseReason(
                TransportError(.connectionLost, .open, "no close_notify", detail: TLSProblem.truncated.rawValue)
            ),
        ]
        for reason in reasons {
            guard case .unexplained = Blame.Evidence(reason) else {
                Issue.record("\(reason) is \(Blame.Evidence(reason))")
                continue
            }
        }
    }

    @Test("No other end says anything about a message")
    func others() {
        let codes: [UInt16] = [1000, 1001, 1002, 1008, 1010, 1012, 1013, 1014, 3000, 3003, 3008, 4000]
        for code in codes { #expect(Blame.Evidence(CloseReason(peerClosed: code, text: "")) == .none, "\(code)") }
        let errors = [
            TransportError(.keepaliveTimeout, .open, "silent"),
            TransportError(.acknowledgementTimeout, .open, "silent"),
            TransportError(.connectionLost, .open, "read: timed out", detail: 110),
            TransportError(.timedOut, .open, "late"),
            TransportError(.connectionReset, .open, "a server of datagrams has forgotten the connection"),
            TransportError(.connectionLost, .open, "a broken record", detail: TLSProblem.brokenRecord.rawValue),
            TransportError(.closedByPeer, .open, "the peer has ended the session"),
            TransportError(.unreachable, .open, "no route"), TransportError(.connectionReset, .handshake, "reset"),
            TransportError(.messageTooLarge, .handshake, "too large", detail: 1009),
            TransportError(.unsupported, .open, "the broker does not support QoS 2"),
        ]
        for error in errors { #expect(Blame.Evidence(CloseReason(error)) == .none, "\(error)") }
        #expect(Blame.Evidence(CloseReason(.user)) == .none && Blame.Evidence(CloseReason(.keepalive)) == .none)
    }

    @Test("After a named cause, messages are sent one at a time, and the one that meets it twice alone is rejected")
    func searches() throws {
        var blame = Blame()
        #expect(end(&blame, Self.tooLarge, 1, 2, 3) == nil)
        #expect(blame.window(64, oldest: MessageID(1)) == 1)
        // The first was acknowledged.
        #expect(end(&blame, Self.tooLarge, 2) == nil)
        #expect(blame.window(64, oldest: MessageID(2)) == 1)
        #expect(end(&blame, Self.tooLarge, 2) == .rejected(try #require(Self.tooLarge.error)))
        #expect(blame.window(64, oldest: MessageID(3)) == 1)
        #expect(blame.window(64, oldest: MessageID(4)) == 64)
        #expect(blame.window(64, oldest: MessageID(3)) == 64)
    }

    @Test("The search ends when the outbox is empty")
    func searchEnds() {
        var blame = Blame()
        _ = end(&blame, Self.tooLarge, 1, 2)
        #expect(blame.window(64, oldest: nil) == 64)
        #expect(blame.window(64, oldest: MessageID(2)) == 64)
    }

    @Test("Without a reason, a message is set aside as unknown after five endings in a row, if it was alone each time")
    func alone() {
        var blame = Blame()
        blame.acknowledged()
        for _ in 1...4 { #expect(end(&blame, Self.reset, 7) == nil) }
        guard case .unknown(let error)? = end(&blame, Self.reset, 7) else {
            Issue.record("the message was not set aside")
            return
        }
        #expect(error.code == .connectionReset && error.reason.contains("5 connections in a row"))
        // The next message starts from nothing.
        #expect(end(&blame, Self.reset, 8) == nil)
    }

    @Test("Without a reason, nothing is set aside before the peer has acknowledged a message")
    func neverAcknowledged() {
        var blame = Blame()
        for _ in 1...100 { #expect(end(&blame, Self.reset, 1) == nil) }
        // A peer that has forgotten the session may be another one.
        blame.acknowledged()
        blame.forgotten()
        for _ in 1...100 { #expect(end(&blame, Self.reset, 1) == nil) }
    }

    @Test("An end for another reason begins the row of unexplained ones again", arguments: [false, true])
    func inARow(hasMoved: Bool) {
        var blame = Blame()
        blame.acknowledged()
        for _ in 1...25 {
            for _ in 1...4 {
                blame.opened()
                #expect(end(&blame, Self.reset, 1) == nil)
            }
            blame.opened()
            if hasMoved { blame.moved() }
            #expect(end(&blame, hasMoved ? Self.reset : CloseReason(.keepalive), 1) == nil)
        }
    }

    @Test("Another reason in between does not protect a message for which the peer has named a cause")
    func namedTwice() {
        var blame = Blame()
        #expect(end(&blame, Self.tooLarge, 1) == nil)
        #expect(end(&blame, CloseReason(.keepalive), 1) == nil)
        #expect(end(&blame, Self.tooLarge, 1) != nil)
    }

    @Test("Several messages that no connection brings forward are sent one at a time, but none of them is blamed")
    func crowd() {
        var blame = Blame()
        blame.acknowledged()
        #expect(end(&blame, Self.reset, 1, 2, 3) == nil)
        #expect(blame.window(64, oldest: MessageID(1)) == 64)
        // The first was acknowledged in between.
        #expect(end(&blame, Self.reset, 2, 3, 4) == nil)
        #expect(blame.window(64, oldest: MessageID(2)) == 64)
        for _ in 1...100 { #expect(end(&blame, Self.reset, 2, 3, 4) == nil) }
        #expect(blame.window(64, oldest: MessageID(2)) == 1)
        #expect(blame.window(64, oldest: MessageID(4)) == 1)
        #expect(blame.window(64, oldest: MessageID(5)) == 64)
    }

    @Test("The end of an idle connection blames nothing")
    func idle() {
        var blame = Blame()
        #expect(blame.ended(.named(gone), inFlight: []) == nil)
        #expect(blame.window(64, oldest: MessageID(1)) == 64)
    }
}
