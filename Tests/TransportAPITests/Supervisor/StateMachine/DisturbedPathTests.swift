import Testing

@testable import TransportAPI

@Suite("A supervisor on a disturbed path")
struct DisturbedPathTests {
    private static let portal = answer(302)

    private static func answer(_ status: Int) -> TransportError {
        var error = TransportError.httpStatus(status)
        error.origin = .path
        return error
    }

    private func harness(
        endpoints: Int = 1,
        adjust: (inout SupervisorConfiguration) -> Void = { _ in }
    ) -> MachineHarness {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.seconds(1))
        adjust(&configuration)
        return MachineHarness(configuration, endpoints: endpoints)
    }

    /// Opens a connection to the current endpoint, which then ends.
    private func work(_ harness: inout MachineHarness) {
        harness.tell(.connect)
        harness.tell(.connected(harness.machine.connection, .session))
        harness.tell(.ended(harness.machine.connection, lost))
    }

    /// Lets the next attempt fail, and returns the pause after it; `nil` if the supervisor has ended.
    private func fail(_ harness: inout MachineHarness, _ error: TransportError = portal) -> Duration? {
        if case .waiting(let time) = harness.machine.phase {
            harness.now = max(harness.now, time)
            harness.tell(.deadlineReached(SignsOfLife()))
        }
        let actions = harness.tell(.failed(harness.machine.connection, error))
        for case .state(.waiting(let delay, _)) in actions { return delay }
        return nil
    }

    @Test("The pauses double up to five minutes, and no count ends them")
    func pauses() {
        var harness = harness {
            $0.maximumAttempts = 3
            $0.backoff = .schedule([.seconds(1), .seconds(2)], givesUp: true)
        }
        work(&harness)
        let pauses = (0..<20).map { _ in fail(&harness) }
        let expected: [Duration] = [1, 2, 4, 8, 16, 32, 64, 128, 256].map { .seconds($0) }
        #expect(Array(pauses.prefix(9)) == expected)
        #expect(pauses.dropFirst(9).allSatisfy { $0 == .seconds(300) })
    }

    @Test("Ordinary failures in between count as before")
    func ordinaryFailures() {
        var harness = harness { $0.maximumAttempts = 3 }
        work(&harness)
        #expect(fail(&harness) != nil)
        #expect(fail(&harness, gone) != nil)
        #expect(fail(&harness) != nil)
        #expect(fail(&harness, gone) == nil)
        #expect(harness.machine.isOver)
    }

    @Test("The time limit of the app ends a disturbance too")
    func elapsed() {
        var harness = harness { $0.maximumElapsed = .seconds(10) }
        work(&harness)
        while !harness.machine.isOver { _ = fail(&harness) }
        #expect(harness.now <= Instant.zero.advanced(by: .seconds(10)))
    }

    @Test("Another path is tried at once, and the pauses begin again")
    func otherPath() {
        var harness = harness()
        harness.tell(.path(NetworkPath(isUsable: true, network: "home")))
        work(&harness)
        for _ in 0..<10 { _ = fail(&harness) }
        let attempts = harness.attempts.count
        harness.tell(.path(NetworkPath(isUsable: true, network: "mobile")))
        #expect(harness.attempts.count == attempts + 1)
        #expect(fail(&harness) == .seconds(1))
    }

    @Test("The state names the cause and the reason of the retry")
    func cause() {
        var harness = harness()
        work(&harness)
        _ = fail(&harness)
        guard case .state(.waiting(_, let reason))? = harness.actions.last else {
            Issue.record("\(String(describing: harness.actions.last))")
            return
        }
        #expect(reason.error?.code == .handshakeFailed && reason.error?.detail == 302)
        #expect(reason.text.contains("HTTP 302") && reason.text.contains("captive portal"))
    }

    @Test("An endpoint that has never worked is set aside, and the one that has is tried again")
    func otherEndpoint() {
        var harness = harness(endpoints: 2)
        work(&harness)
        #expect(fail(&harness, Self.answer(401)) == nil)
        #expect(harness.attempts.last == true)
        // The second refusal of the first endpoint, and the only one of the other.
        #expect(fail(&harness, Self.answer(401)) == .zero)
        #expect(fail(&harness, Self.answer(401)) == .seconds(1))
        #expect(harness.machine.rotation.setAside == [1: .untilAnotherOpens] && harness.machine.endpoint == 0)
        #expect(fail(&harness) == .seconds(2))
    }

    @Test("A peer that answers the hello with something else is believed if it was verified", arguments: [true, false])
    func welcome(isVerified: Bool) {
        var harness = MachineHarness(.session)
        harness.open()
        harness.tell(.ended(harness.machine.connection, lost))
        harness.tell(.deadlineReached(SignsOfLife()))
        harness.tell(.connected(harness.machine.connection, .session, isVerified: isVerified))
        harness.tell(.received(harness.machine.connection, Payload(Array("HTTP/1.1 302 Found".utf8))))
        #expect(harness.machine.isOver == isVerified)
    }
}
