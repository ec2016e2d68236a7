import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

// Many messages: what becomes of those that wait for room or for their acknowledgement.

extension ContractTests {
    /// Message number `number`, of `size` bytes.
    private static func numbered(_ number: Int, _ size: Int) -> Payload {
        let digits = Array("\(number)".utf8)
        return Payload(digits + [UInt8](repeating: 0x20, count: max(0, size - digits.count)))
    }

    @Test(
        "holds messages back while there are more than it may keep, and keeps their order",
        arguments: names,
        Caller.allCases
    )
    func backpressure(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name, options: [.init(name: "write-buffer", value: "10000")])
            // Plain datagrams may be lost.
            let count = pair.client.capabilities.isReliable ? 2000 : 0
            let sending = Task {
                var outcomes: [SendOutcome] = []
                for number in 0..<count { outcomes.append(await pair.client.send(Self.numbered(number, 1000))) }
                return outcomes
            }
            for number in 0..<count {
                #expect(try await pair.server.receive()?.bytes == Self.numbered(number, 1000).bytes)
            }
            #expect(await sending.value.allSatisfy(\.isSuccess))
            await pair.close()
        }
    }

    @Test(
        "keeps the order of messages that wait for their acknowledgement and for room in the window",
        arguments: ["mqtt", "mqtt+ws"]
    )
    func window(name: String) async throws {
        let options = [("qos", "1"), ("in-flight", "20")].map { Endpoint.Option(name: $0.0, value: $0.1) }
        let pair = try await Pair(name, options: options)
        let count = 1000
        let sending = Task {
            await withTaskGroup(of: SendOutcome.self) { group in
                for number in 0..<count {
                    // Tasks of one loop begin in their order.
                    group.addTask(executorPreference: EventLoop.shared) {
                        await pair.client.send(Self.numbered(number, 0))
                    }
                }
                return await group.allSatisfy { $0 == .acknowledged }
            }
        }
        for number in 0..<count { #expect(try await pair.server.receive()?.bytes == Self.numbered(number, 0).bytes) }
        #expect(await sending.value)
        await pair.close()
    }

    /// More than all buffers on the way take.
    private static let (muchCount, muchSize) = (1500, 20_000)

    @Test(
        "rejects a message that waits for room when its task is cancelled, has sent all before, and lives on",
        arguments: names,
        Caller.allCases
    )
    func cancelSend(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            guard pair.client.capabilities.isReliable else { return await pair.close() }
            let sending = Task { () -> (sent: Int, failure: SendOutcome?) in
                for number in 0..<Self.muchCount {
                    let outcome = await pair.client.send(Self.numbered(number, Self.muchSize))
                    guard outcome.isSuccess else { return (number, outcome) }
                }
                return (Self.muchCount, nil)
            }
            #expect(try await pair.server.receive()?.bytes == Self.numbered(0, Self.muchSize).bytes)
            sending.cancel()
            let (sent, failure) = await sending.value
            var mayHaveLeft = false
            switch failure {
            case .rejected(let error): #expect(error.code == .cancelled)
            // It waited for its acknowledgement, and not for room.
            case .unknown(let error):
                #expect(error.code == .cancelled)
                mayHaveLeft = true
            default: Issue.record("\(sent) messages were sent, and then one ended \(failure as Any)")
            }
            let next = Task { await pair.client.send(self.message("next")) }
            var taken = 1
            while let payload = try await pair.server.receive(), payload.bytes != Array("next".utf8) {
                #expect(payload.bytes == Self.numbered(taken, Self.muchSize).bytes)
                taken += 1
            }
            #expect(taken == sent || mayHaveLeft && taken == sent + 1)
            #expect(await next.value.isSuccess)
            await pair.close()
        }
    }

    @Test("gives each message its outcome when the connection ends", arguments: names, Caller.allCases)
    func endWhileSending(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            let senders = (0..<8).map { _ in
                Task {
                    while true {
                        let outcome = await pair.client.send(Self.numbered(0, 1000))
                        if !outcome.isSuccess { return outcome }
                    }
                }
            }
            #expect(try await pair.server.receive()?.bytes == Self.numbered(0, 1000).bytes)
            await pair.server.close()
            for sender in senders {
                switch await sender.value {
                case .rejected, .unknown: break
                case let outcome: Issue.record("a message ended \(outcome)")
                }
            }
            await pair.close()
        }
    }
}
