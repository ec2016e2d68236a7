import SocketIO
import TestSupport
import Testing
import TransportAPI

/// Tests the outcomes of queued messages, with time under the test's control.
@Suite("A supervisor's outbox", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorOutboxTests {
    let runtime = VirtualRuntime()
    let script = Script()

    /// A supervisor that is not connected and has room for `count` messages.
    func supervisor(_ count: Int, _ policy: OutboxConfiguration.Policy = .wait) throws -> Supervisor {
        let setup = try script.setup {
            $0.outbox.maximumCount = count
            $0.outbox.whenFull = policy
        }
        return try Supervisor(setup, on: runtime)
    }

    func send(_ supervisor: Supervisor, _ texts: ClosedRange<Int>) -> [Pending<SendOutcome>] {
        texts.map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
    }

    func code(_ outcome: SendOutcome?) -> TransportError.Code? {
        if case .rejected(let error) = outcome { error.code } else { nil }
    }

    @Test(
        "A supervisor keeps messages without a connection and then sends them in order, also those that wait for room"
    )
    func waits() throws {
        let supervisor = try supervisor(3)
        let sends = send(supervisor, 1...6)
        let refused = send(supervisor, 7...7)
        #expect(sends.allSatisfy { $0.value == nil })
        #expect(code(refused[0].value) == .bufferFull)
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["1", "2", "3", "4", "5", "6"])
        #expect(sends.allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A message that is larger than the whole outbox is rejected with its size and the key to change",
        arguments: OutboxConfiguration.Policy.allCases
    )
    func larger(policy: OutboxConfiguration.Policy) throws {
        let setup = try script.setup {
            $0.outbox.maximumBytes = 100
            $0.outbox.maximumCount = 1
            $0.outbox.whenFull = policy
        }
        let supervisor = try Supervisor(setup, on: runtime)
        // Also while others wait.
        for _ in 0..<2 {
            let send = runtime.begin { await supervisor.send(Payload([UInt8](repeating: 1, count: 101))) }
            guard case .rejected(let error) = send.value else {
                Issue.record("\(String(describing: send.value))")
                continue
            }
            #expect(error.code == .messageTooLarge)
            #expect(error.reason.contains("it has 101 bytes, and outbox.bytes is 100; raise outbox.bytes"))
            _ = self.send(supervisor, 1...2)
        }
        try runtime.run { await supervisor.close() }
    }

    @Test("A message that waits although nothing connects is reported once", arguments: [true, false])
    func notConnecting(isObserved: Bool) throws {
        var setup = try script.setup()
        let (recorder, lines) = (Recorder(), Locked<[String]>([]))
        if isObserved { setup.observer = recorder }
        setup.warn = { line in lines.withLock { $0.append(line) } }
        let supervisor = try Supervisor(setup, on: runtime)
        _ = send(supervisor, 1...1)
        runtime.advance(by: .milliseconds(900))
        #expect(!recorder.events.contains(.notConnecting) && lines.withLock { $0.isEmpty })
        _ = send(supervisor, 2...2)
        runtime.advance(by: .seconds(3600))
        _ = send(supervisor, 3...3)
        runtime.advance(by: .seconds(3600))
        #expect(recorder.events.count { $0 == .notConnecting } == (isObserved ? 1 : 0))
        let written = lines.withLock { $0 }
        #expect(written.count == (isObserved ? 0 : 1))
        #expect(written.allSatisfy { $0.contains("memory://server") && $0.contains("connect() was not called") })
        try runtime.run { await supervisor.close() }
    }

    @Test("An app that connects soon after its first message gets no report")
    func connectsSoon() throws {
        var setup = try script.setup()
        let recorder = Recorder()
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        _ = send(supervisor, 1...1)
        runtime.advance(by: .milliseconds(900))
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        #expect(!recorder.events.contains(.notConnecting) && script.last?.texts == ["1"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A full outbox refuses the newest message if it is configured so")
    func refusesNewest() throws {
        let supervisor = try supervisor(3, .refuseNewest)
        let sends = send(supervisor, 1...5)
        #expect(sends.map { code($0.value) } == [nil, nil, nil, .bufferFull, .bufferFull])
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["1", "2", "3"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A full outbox drops the oldest message if it is configured so")
    func dropsOldest() throws {
        let supervisor = try supervisor(3, .dropOldest)
        let sends = send(supervisor, 1...5)
        #expect(sends.map { code($0.value) } == [.bufferFull, .bufferFull, nil, nil, nil])
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["3", "4", "5"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A message expires when it reaches its maximum age")
    func expiry() throws {
        let setup = try script.setup { $0.outbox.maximumAge = .seconds(60) }
        let supervisor = try Supervisor(setup, on: runtime)
        let old = runtime.begin { await supervisor.send(bytes("old")) }
        runtime.advance(by: .seconds(30))
        let young = runtime.begin { await supervisor.send(bytes("young")) }
        runtime.advance(by: .seconds(31))
        #expect(old.value == .expired)
        #expect(young.value == nil)
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["young"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor returns submitted messages that were not delivered")
    func undelivered() throws {
        let supervisor = try supervisor(2)
        let submitted = try (1...2).map { number in
            try runtime.run { try? await supervisor.submit(bytes("\(number)")) }
        }
        #expect(submitted.compactMap(\.?.number) == [1, 2])
        let third = runtime.begin { try? await supervisor.submit(bytes("3")) }
        #expect(third.value == nil)
        try runtime.run { await supervisor.close() }
        runtime.settle()
        // The caller has received the refusal of this message, so it is not returned here.
        #expect(third.value == .some(nil))
        let back = try runtime.run { await supervisor.undelivered.reduce(into: []) { $0.append($1) } }
        #expect(back.map(\.payload.string) == ["1", "2"])
        #expect(back.map(\.id) == submitted)
        #expect(back.allSatisfy { code($0.outcome) == .closedByUser })
        let late = try runtime.run { () -> TransportError? in
            do throws(TransportError) { _ = try await supervisor.submit(bytes("late")) } catch { return error }
            return nil
        }
        #expect(late?.code == .closedByUser)
    }

    @Test("A supervisor discards a queued message when its sender is cancelled")
    func cancelWaiting() throws {
        let supervisor = try supervisor(2)
        let sends = send(supervisor, 1...4)
        sends[0].cancel()
        sends[3].cancel()
        runtime.settle()
        #expect(code(sends[0].value) == .cancelled)
        #expect(code(sends[3].value) == .cancelled)
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["2", "3"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A sent message ends once, as unknown, when its sender is cancelled before the outcome")
    func cancelInFlight() throws {
        var setup = try script.setup()
        let recorder = Recorder()
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.block(true)
        let sends = send(supervisor, 1...2)
        sends[0].cancel()
        runtime.settle()
        guard case .unknown(let error) = sends[0].value else {
            Issue.record("outcome: \(String(describing: sends[0].value))")
            return
        }
        #expect(error.code == .cancelled)
        script.last?.block(false)
        runtime.settle()
        #expect(sends[1].value == .written)
        #expect(recorder.events.count { if case .finished(MessageID(1), _) = $0 { true } else { false } } == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor keeps an admitted message whose submitter is cancelled")
    func cancelSubmitted() throws {
        let supervisor = try supervisor(1)
        let submit = runtime.begin {
            withUnsafeCurrentTask { $0?.cancel() }
            return try? await supervisor.submit(bytes("kept"))
        }
        #expect(submit.value == MessageID(1))
        let waiting = runtime.begin { try? await supervisor.submit(bytes("not kept")) }
        waiting.cancel()
        runtime.settle()
        #expect(waiting.value == .some(nil))
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["kept"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor keeps a message that is admitted at the moment when its submitter is cancelled")
    func cancelAdmitted() throws {
        let supervisor = try supervisor(1)
        let first = runtime.begin { await supervisor.send(bytes("not kept")) }
        let second = runtime.begin { try? await supervisor.submit(bytes("kept")) }
        first.cancel()
        second.cancel()
        runtime.settle()
        #expect(code(first.value) == .cancelled)
        #expect(second.value == MessageID(2))
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["kept"])
        try runtime.run { await supervisor.close() }
    }
}

// Connections that return messages, refuse them, or make them wait.
extension SupervisorOutboxTests {
    @Test("A supervisor keeps the messages that a connection returns, in order, for the next connection")
    func givenBack() throws {
        let supervisor = try supervisor(10)
        supervisor.connect()
        runtime.settle()
        script.last?.block(true)
        let sends = send(supervisor, 1...5)
        script.last?.end(CloseReason(TransportError(.connectionReset, .open, "reset")))
        let more = send(supervisor, 6...8)
        #expect((sends + more).allSatisfy { $0.value == nil })
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        #expect(script.last?.texts == ["1", "2", "3", "4", "5", "6", "7", "8"])
        #expect((sends + more).allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor does not repeatedly send a message to a connection that returns it", arguments: [true, false])
    func refusingConnection(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.settle(.rejected(TransportError(.connectionLost, .open, "it is about to end")))
        let sends = send(supervisor, 1...2)
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        #expect(script.connections[0].sent.count <= 2)
        #expect(script.last?.texts == ["1", "2"])
        #expect(sends.allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A supervisor keeps a message that an ending connection rejects, whatever the reason of that end",
        arguments: [true, false]
    )
    func lateForConnection(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        // If the message itself caused this error, sending it again could not help.
        script.last?.settle(.rejected(TransportError(.messageTooLarge, .closing, "the peer hung up", detail: 1009)))
        let sends = send(supervisor, 1...2)
        runtime.advance(by: .seconds(2))
        #expect(script.last?.texts == ["1", "2"])
        #expect(sends.allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test("No message overtakes one that waits for the connection", arguments: [true, false])
    func blockedConnection(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.block(true)
        let first = send(supervisor, 1...3)
        script.last?.block(false)
        let more = send(supervisor, 4...6)
        #expect(script.last?.texts == (1...6).map(String.init))
        #expect((first + more).allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A message that no connection accepts is rejected, and the messages behind it are sent",
        arguments: [true, false]
    )
    func unacceptable(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        for code in [TransportError.Code.messageTooLarge, .invalidText] {
            script.last?.settle(.rejected(TransportError(code, .open, "not this one")))
            #expect(self.code(try runtime.run { await supervisor.send(bytes("unacceptable")) }) == code)
        }
        script.last?.settle(.written)
        #expect(try runtime.run { await supervisor.send(bytes("good")) } == .written)
        #expect(script.connections.count == 1)
        try runtime.run { await supervisor.close() }
    }
}
