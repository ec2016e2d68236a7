import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Tests a connection that calls the receiver of its messages. Both live on one loop.
@Suite("A connection that calls its receiver", .timeLimit(.minutes(5)), .ownThread)
struct ConnectionReceiverTests {
    private static func onLoop<Value: Sendable>(
        _ body: @escaping @Sendable (DrivenConnection, TestReceiver) -> Value
    ) async throws -> Value {
        try await DrivenConnection.onLoop { loop in
            let driven = DrivenConnection(ByteCore(), on: loop)
            defer { driven.driver.close(abort: true) }
            return body(driven, TestReceiver(driven.driver))
        }
    }

    @Test("A connection calls its receiver for the requested number of messages, in order, and keeps the others")
    func order() async throws {
        let seen = try await Self.onLoop { driven, receiver in
            receiver.ask(for: 2)
            driven.arrive(.bytes([1, 2, 3, 4]))
            var seen = [receiver.log.seen]
            receiver.ask(for: 10)
            seen.append(receiver.log.seen)
            driven.arrive(.bytes([5]), .bytes([6, 7]))
            return seen + [receiver.log.seen]
        }
        #expect(seen == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]])
    }

    @Test("A message is confirmed when the next one is requested, and not before")
    func confirmation() async throws {
        let confirmed = try await Self.onLoop { driven, receiver in
            receiver.ask(for: 1)
            driven.arrive(.bytes([1, 2, 3]))
            var confirmed = [driven.channel.sent]
            receiver.ask(for: 1)
            driven.driver.flushIfRequested()
            confirmed.append(driven.channel.sent)
            receiver.ask(for: 10)
            driven.driver.flushIfRequested()
            return confirmed + [driven.channel.sent]
        }
        #expect(confirmed == [[], [200], [200, 200, 200]])
    }

    @Test("A receiver is notified of the end once, after all messages")
    func end() async throws {
        let log = try await Self.onLoop { driven, receiver in
            receiver.ask(for: 1)
            driven.arrive(.bytes([1, 2, 3]), .end)
            let early = receiver.log
            receiver.ask(for: 10)
            return [early, receiver.log]
        }
        #expect(log == [ReceiverLog(seen: [1], ends: 0), ReceiverLog(seen: [1, 2, 3], ends: 1)])
    }

    @Test("A receiver is notified of the end while it waits for a message")
    func awaitedEnd() async throws {
        let log = try await Self.onLoop { driven, receiver in
            receiver.ask(for: 10)
            driven.arrive(.bytes([1]), .end)
            driven.driver.close(abort: true)
            return receiver.log
        }
        #expect(log == ReceiverLog(seen: [1], ends: 1))
    }

    @Test("A receiver may send messages during a call, and they keep their order")
    func answers() async throws {
        let sent = try await Self.onLoop { driven, receiver in
            receiver.onMessage = { [unowned receiver] in
                _ = receiver.connection.sendUnlessWaiting(Payload([$0 + 10]))
            }
            receiver.ask(for: 10)
            driven.arrive(.bytes([1, 2, 3]))
            return driven.channel.sent.filter { $0 != 200 }
        }
        #expect(sent == [11, 12, 13])
    }

    @Test("A connection that its receiver abandons during a call delivers no further message")
    func endedByReceiver() async throws {
        let log = try await Self.onLoop { driven, receiver in
            receiver.onMessage = { [unowned receiver] in
                if $0 == 2 { receiver.connection.abandon(CloseReason(.keepalive)) }
            }
            receiver.ask(for: 10)
            driven.arrive(.bytes([1, 2, 3]))
            return receiver.log
        }
        #expect(log == ReceiverLog(seen: [1, 2], ends: 1))
    }

    @Test("A connection has one receiver at a time")
    func second() async throws {
        let log = try await Self.onLoop { driven, receiver in
            let other = TestReceiver(receiver.connection)
            receiver.ask(for: 10)
            other.ask(for: 10)
            driven.arrive(.bytes([1]))
            return [receiver.log, other.log]
        }
        #expect(log == [ReceiverLog(seen: [1], ends: 0), ReceiverLog(seen: [], ends: 1)])
    }
}

/// The messages of a receiver, and how often it was notified of the end or refused.
private struct ReceiverLog: Equatable, Sendable {
    var seen: [UInt8] = []
    var ends = 0
}

/// Requests messages until it has the wanted number.
private final class TestReceiver: ConnectionReceiver {
    let connection: ConnectionDriver
    private(set) var log = ReceiverLog()
    /// Called with each message during the connection's call.
    var onMessage: ((UInt8) -> Void)?
    private var wanted = 0

    init(_ connection: ConnectionDriver) {
        self.connection = connection
    }

    func ask(for count: Int) {
        wanted = count
        while wanted > 0 {
            guard let arrival = connection.receiveNow(orTell: self) else { return }
            take(arrival)
        }
    }

    func receive(_ arrival: Result<Payload?, TransportError>) {
        take(arrival)
        ask(for: wanted)
    }

    private func take(_ arrival: Result<Payload?, TransportError>) {
        guard case .success(let payload?) = arrival else {
            log.ends += 1
            wanted = 0
            return
        }
        wanted -= 1
        log.seen += payload.bytes
        for byte in payload.bytes { onMessage?(byte) }
    }
}

/// Opens at once. Each byte is a message, and is confirmed by another byte.
private struct ByteCore: PackageCore {
    private var isOpen = false

    init() {}

    var capabilities: Capabilities { Capabilities(hasNativePing: false, maximumMessageSize: 1000) }
    var confirmsReceipt: Bool { true }
    var acknowledges: Bool { false }
    var deadline: Instant? { nil }

    mutating func start(_: inout CoreContext) {}

    mutating func next(_ input: inout ByteBuffer, _: inout CoreContext) throws(TransportError) -> CoreEvent? {
        guard isOpen else {
            isOpen = true
            return .opened
        }
        guard let byte = input.byte(at: 0) else { return nil }
        input.consume(1)
        return .message(Payload([byte]))
    }

    mutating func confirmReceipt(_ context: inout CoreContext) {
        context.output.append(contentsOf: [200] as [UInt8])
    }

    mutating func inputEnded(_: inout CoreContext) throws(TransportError) -> CoreEvent { .closed(CloseReason(.peer)) }

    mutating func send(
        _ payload: Payload,
        id _: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        context.output.append(contentsOf: payload.bytes)
        return .written
    }

    mutating func ping(_: inout CoreContext) throws(TransportError) -> UInt64 { 0 }
    mutating func close(_: CloseReason, _: inout CoreContext) {}
    mutating func deadlineReached(_: inout CoreContext) throws(TransportError) {}
}
