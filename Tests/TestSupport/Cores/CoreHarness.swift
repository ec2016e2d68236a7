import Protocols
import TransportAPI

/// Runs one core with its buffers by hand, in place of a driver.
package struct CoreHarness<Core: ProtocolCore>: ~Copyable {
    package var core: Core
    package var input = ByteBuffer()
    package var context: CoreContext
    package var events: [CoreEvent] = []
    package var failure: TransportError?

    package init(_ core: Core, seed: UInt64 = 1, now: Instant = .zero) {
        self.core = core
        context = CoreContext(now: now, random: .seeded(seed))
    }

    package mutating func start() {
        core.start(&context)
    }

    /// Feeds bytes of a stream in pieces of `slice` bytes, and collects the core's events.
    package mutating func feed(_ bytes: [UInt8], slice: Int = .max) {
        var rest = bytes[...]
        repeat {
            input.append(contentsOf: Array(rest.prefix(slice)))
            rest = rest.dropFirst(slice)
            drain()
        } while !rest.isEmpty && failure == nil
    }

    package mutating func feed(datagram: [UInt8]) {
        input.append(contentsOf: datagram)
        drain()
    }

    /// Calls `next` once. Returns whether there was an event.
    package mutating func drainOne() -> Bool {
        guard failure == nil else { return false }
        do throws(TransportError) {
            guard let event = try core.next(&input, &context) else { return false }
            events.append(event)
            return true
        } catch {
            failure = error
            return false
        }
    }

    /// Calls `next` until it has no more events.
    package mutating func drain() {
        guard failure == nil else { return }
        do throws(TransportError) {
            while let event = try core.next(&input, &context) {
                if case .progress = event { continue }
                events.append(event)
            }
        } catch {
            failure = error
        }
    }

    package mutating func send(_ payload: Payload, id: UInt64 = 0) throws(TransportError) -> SendStatus {
        try core.send(payload, id: id, &context)
    }

    /// Moves the clock, and calls every deadline on the way.
    package mutating func advance(by duration: Duration) {
        let end = context.now.advanced(by: duration)
        while failure == nil, let deadline = core.deadline, deadline <= end {
            context.now = max(context.now, deadline)
            do throws(TransportError) {
                try core.deadlineReached(&context)
            } catch {
                failure = error
            }
            drain()
        }
        context.now = end
    }

    /// Reports that the peer has closed its half.
    package mutating func endInput() {
        guard failure == nil else { return }
        do throws(TransportError) {
            events.append(try core.inputEnded(&context))
        } catch {
            failure = error
        }
    }

    /// Takes the bytes that the core has written.
    package mutating func takeOutput() -> [UInt8] {
        defer {
            context.output.removeAll()
            context.datagramEnds.removeAll()
        }
        return context.output.bytes(at: 0, count: context.output.count) ?? []
    }

    /// Takes the datagrams that the core has written.
    package mutating func takeDatagrams() -> [[UInt8]] {
        let ends = context.datagramEnds
        let all = takeOutput()
        return zip([0] + ends, ends).map { Array(all[$0..<$1]) }
    }

    package var messages: [Payload] {
        events.compactMap { if case .message(let payload) = $0 { payload } else { nil } }
    }

    /// The number of pings that were answered.
    /// The numbers of the pings that were answered.
    package var pongs: [UInt64] { events.compactMap { if case .pong(let number) = $0 { number } else { nil } } }

    package var isOpen: Bool {
        events.contains { if case .opened = $0 { true } else { false } }
    }

    package var closeReason: CloseReason? {
        events.lazy.compactMap { if case .closed(let reason) = $0 { reason } else { nil } }.first
    }
}

/// Carries bytes between two cores over a byte stream, `slice` at a time, until both are silent.
package func exchange<A: ProtocolCore, B: ProtocolCore>(
    _ left: inout CoreHarness<A>,
    _ right: inout CoreHarness<B>,
    slice: Int = .max
) {
    while true {
        let toRight = left.takeOutput()
        let toLeft = right.takeOutput()
        if toRight.isEmpty && toLeft.isEmpty { return }
        if !toRight.isEmpty { right.feed(toRight, slice: slice) }
        if !toLeft.isEmpty { left.feed(toLeft, slice: slice) }
    }
}

/// Carries datagrams between two cores until both are silent.
package func exchangeDatagrams<A: ProtocolCore, B: ProtocolCore>(
    _ left: inout CoreHarness<A>,
    _ right: inout CoreHarness<B>
) {
    while true {
        let toRight = left.takeDatagrams()
        let toLeft = right.takeDatagrams()
        if toRight.isEmpty && toLeft.isEmpty { return }
        for datagram in toRight { right.feed(datagram: datagram) }
        for datagram in toLeft { left.feed(datagram: datagram) }
    }
}
