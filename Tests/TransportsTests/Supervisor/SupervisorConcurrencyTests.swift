import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Tests one supervisor that many tasks on many threads use.
@Suite("Many tasks with one supervisor", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorConcurrencyTests {
    static let names = TransportRegistry.available.transports.map(\.name)

    @Test("Each message ends once, and the order of each task is kept", arguments: names, Caller.allCases)
    func manyTasks(name: String, caller: Caller) async throws {
        let (tasks, count) = (8, 250)
        let server = try await PlainServer(name)
        var configuration = SupervisorConfiguration.quick
        // Datagrams that are not read in time are lost, at worst all of a task. Only the order of those that arrive is
        // guaranteed.
        let isReliable = try TransportRegistry.trial.transport(for: server.endpoint).capabilities.isReliable
        configuration.outbox.maximumCount = 500
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint], configuration)
        supervisor.connect()
        let outcomes = try await withThrowingTaskGroup { group in
            for task in 0..<tasks {
                group.addTask {
                    try await caller.run {
                        var good = 0
                        for number in 0..<count where await supervisor.send(bytes("\(task) \(number)")).isSuccess {
                            good += 1
                        }
                        return good
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes == Array(repeating: count, count: tasks))
        if isReliable {
            await server.wait(for: tasks * count)
        } else {
            // All that arrives of the messages before has arrived when a later one has. That one may be lost too.
            while !server.received.contains("last") {
                #expect(await supervisor.send(bytes("last")).isSuccess)
                await Task.yield()
            }
        }
        let received = server.received
        for task in 0..<tasks {
            let numbers = received.filter { $0.hasPrefix("\(task) ") }.compactMap { Int($0.dropFirst(2)) }
            #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 })
            if isReliable { #expect(numbers.count == count) }
        }
        // The observer may receive the last event after the sender has its outcome, but not after the close.
        await supervisor.close()
        let ends = recorder.events.compactMap { if case .finished(let id, _) = $0 { id.number } else { nil } }
        #expect(ends.count >= tasks * count && ends.sorted() == (1...UInt64(ends.count)).map { $0 })
        await server.stop()
    }

    @Test("A supervisor and its connections may live on different loops", arguments: names)
    func loops(name: String) async throws {
        let loop = try EventLoop(name: "im-other")
        let server = try await EmbeddedServer.start("\(name)://127.0.0.1:0", registry: .trial)
        var endpoint = server.endpoint
        endpoint.options = try TransportRegistry.trial.transport(named: name).loopback("loops")
        // The connections live on the shared loop.
        let setup = Supervisor.Setup(endpoints: [endpoint]) { (endpoint) throws(TransportError) in
            try TransportRegistry.trial.transport(for: endpoint)
        }
        let supervisor = try Supervisor(setup, on: loop)
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        for number in 0..<100 {
            #expect(await supervisor.send(bytes("\(number)")).isSuccess)
            #expect(await messages.next()?.string == "\(number)")
        }
        await supervisor.close()
        await server.stop()
    }

    @Test("A supervisor can be closed while many tasks use it", arguments: names)
    func close(name: String) async throws {
        let server = try await EmbeddedServer.start("\(name)://127.0.0.1:0", registry: .trial)
        var endpoint = server.endpoint
        endpoint.options = try TransportRegistry.trial.transport(named: name).loopback("close")
        let (supervisor, recorder) = try Supervisor.recorded([endpoint])
        supervisor.connect()
        await recorder.waitUntilOpen()
        let messages = supervisor.messages
        await withTaskGroup { group in
            for task in 0..<8 {
                group.addTask {
                    var number = 0
                    while await supervisor.send(bytes("\(task) \(number)")).isSuccess { number += 1 }
                }
            }
            group.addTask {
                for await _ in messages.prefix(100) {}
                await supervisor.close()
            }
        }
        #expect(await supervisor.state() == .closed(.user))
        let begun = recorder.events.compactMap { if case .submitted(let id, _) = $0 { id } else { nil } }
        let ended = recorder.events.compactMap { if case .finished(let id, _) = $0 { id } else { nil } }
        #expect(begun.sorted() == ended.sorted())
        await server.stop()
    }
}
