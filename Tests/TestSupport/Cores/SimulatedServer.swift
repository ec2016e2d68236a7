import Protocols
import Testing
import TransportAPI

/// A server without sockets. It holds the listener's core and the cores of its sessions, as a driver would.
package struct SimulatedServer: ~Copyable {
    package var listener: UDPListenerCore
    package var random: RandomSource
    package var sessions: [UInt64: UDPCore] = [:]
    package var events: [CoreEvent] = []
    package var failures: [TransportError] = []
    package var drops: [UDPListenerCore.DropReason] = []
    package var counters = CoreCounters()
    package var now = Instant.zero

    package init(_ configuration: UDPConfiguration = UDPConfiguration(), seed: UInt64 = 99) throws {
        random = .seeded(seed)
        listener = try UDPListenerCore(configuration, random: &random)
    }

    /// The sessions that ended to make room for a new client.
    package var displaced: [UInt64] = []
    package var refusals: [UDPListenerCore.DropReason] = []

    /// Receives one datagram from `address` and returns the datagrams of the answer.
    package mutating func receive(
        _ datagram: [UInt8],
        from address: [UInt8] = [127, 0, 0, 1, 0, 80],
        network: Int = 0
    ) -> [[UInt8]] {
        var input = ByteBuffer()
        input.append(contentsOf: datagram)
        var reply = ByteBuffer()
        var decision = listener.receive(
            input,
            from: address,
            network: network,
            now: now,
            random: &random,
            reply: &reply
        )
        switch decision {
        case .reply(.full?), .drop(.full):
            guard let id = listener.mostSilent(now) else { break }
            listener.remove(id, now: now)
            sessions[id] = nil
            displaced.append(id)
            decision = listener.receive(
                input,
                from: address,
                network: network,
                now: now,
                random: &random,
                reply: &reply
            )
        default: break
        }
        switch decision {
        case .reply(let reason):
            if let reason { refusals.append(reason) }
            let answer = reply.bytes(at: 0, count: reply.count) ?? []
            // An answer to an unproven address must not be larger than the datagram from it.
            #expect(!answer.isEmpty && answer.count <= datagram.count)
            return [answer]
        case .drop(let reason):
            drops.append(reason)
            return []
        case .session(let identifier): return run(identifier) { _, _ in } + run(identifier, &input)
        case .accept(let core):
            sessions[core.connectionID] = core
            return run(core.connectionID) { core, context in core.start(&context) } + run(core.connectionID, &input)
        }
    }

    /// Runs `body` on the core of one session.
    package mutating func run(_ identifier: UInt64, _ body: (inout UDPCore, inout CoreContext) -> Void) -> [[UInt8]] {
        var empty = ByteBuffer()
        return run(identifier, &empty, body)
    }

    private mutating func run(
        _ identifier: UInt64,
        _ input: inout ByteBuffer,
        _ body: (inout UDPCore, inout CoreContext) -> Void = { _, _ in }
    ) -> [[UInt8]] {
        guard var core = sessions[identifier] else { return [] }
        var context = CoreContext(now: now, random: random)
        var hasEnded = false
        body(&core, &context)
        do throws(TransportError) {
            if let deadline = core.deadline, deadline <= now { try core.deadlineReached(&context) }
            while let event = try core.next(&input, &context) {
                if case .closed = event { hasEnded = true }
                events.append(event)
            }
        } catch {
            failures.append(error)
            hasEnded = true
        }
        #expect(input.isEmpty == true)
        random = context.random
        counters.duplicates += context.counters.duplicates
        counters.reordered += context.counters.reordered
        sessions[identifier] = hasEnded ? nil : core
        if hasEnded { listener.remove(identifier, now: now) }
        let all = context.output.bytes(at: 0, count: context.output.count) ?? []
        return zip([0] + context.datagramEnds, context.datagramEnds).map { Array(all[$0..<$1]) }
    }

    package var messages: [[UInt8]] {
        events.compactMap { if case .message(let payload) = $0 { payload.bytes } else { nil } }
    }
    package var opened: Int { events.count { if case .opened = $0 { true } else { false } } }
    package var closeReasons: [CloseReason] {
        events.compactMap { if case .closed(let reason) = $0 { reason } else { nil } }
    }
}

/// The core of a client that has written its hello.
package func startedClient(
    _ configuration: UDPConfiguration = UDPConfiguration(),
    seed: UInt64 = 1
) throws -> CoreHarness<UDPCore> {
    var client = CoreHarness(try UDPCore(client: configuration), seed: seed)
    client.start()
    return client
}

/// Carries datagrams between client and server until both are silent.
package func exchange(
    _ client: inout CoreHarness<UDPCore>,
    _ server: inout SimulatedServer,
    address: [UInt8] = [127, 0, 0, 1, 0, 80],
    network: Int = 0
) {
    server.now = client.context.now
    while true {
        let datagrams = client.takeDatagrams()
        if datagrams.isEmpty { return }
        for datagram in datagrams {
            for answer in server.receive(datagram, from: address, network: network) {
                client.feed(datagram: answer)
            }
        }
    }
}

/// A path that loses, duplicates and delays datagrams, by a seed.
package struct UnreliableConnection {
    package var loss: Double
    package var doubling: Double
    package var delay: Double
    package var random: RandomSource
    private var delayed: [[UInt8]] = []

    package init(loss: Double, doubling: Double, delay: Double, seed: UInt64) {
        (self.loss, self.doubling, self.delay) = (loss, doubling, delay)
        random = .seeded(seed)
    }

    /// Takes the datagrams that are sent in one round and returns those that arrive in it.
    package mutating func carry(_ datagrams: [[UInt8]]) -> [[UInt8]] {
        var arriving: [[UInt8]] = []
        let due = delayed
        delayed = []
        for datagram in datagrams where Double.random(in: 0..<1, using: &random) >= loss {
            for _ in 0..<(Double.random(in: 0..<1, using: &random) < doubling ? 2 : 1) {
                if Double.random(in: 0..<1, using: &random) < delay {
                    delayed.append(datagram)
                } else {
                    arriving.append(datagram)
                }
            }
        }
        return arriving + due
    }
}
