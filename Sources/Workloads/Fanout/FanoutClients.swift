import CommandSupport
import Measuring
import SocketIO
import TransportAPI
import Transports

/// The publisher and the subscribers of one repeat of a row, all on the clients' loop. They use the public API, as an app does.
package final class FanoutClients: Sendable {
    /// The extent of a slice.
    package struct Slice: Sendable {
        /// When the last message may be sent, in nanoseconds of the monotonic clock.
        package var end: Int64
        /// The most messages that are sent.
        package var messages = Int.max
        /// Open loop: nanoseconds between messages. In the closed loop, `nil`, a message follows when all subscribers have the
        /// one before.
        package var interval: Int64?

        package init(end: Int64, messages: Int = .max, interval: Int64? = nil) {
            (self.end, self.messages, self.interval) = (end, messages, interval)
        }
    }

    /// The measurements of one slice.
    package struct Outcome: Sendable {
        package var times: FanoutCounts.Times
        package var delivered: Int
        package var elapsed: Int64
    }

    /// Time limits.
    package struct Limits: Sendable {
        /// The time to accept one connection.
        package var connect = Duration.seconds(5)
        /// The time without any delivery after which the missing ones count as lost; `nil` is that of ``EchoClient``.
        package var delivery: Duration?
        /// The time that a slow network adds to it.
        package var slack = Duration.zero

        package init(connect: Duration = .seconds(5), delivery: Duration? = nil, slack: Duration = .zero) {
            (self.connect, self.delivery, self.slack) = (connect, delivery, slack)
        }
    }

    private let state: LoopBound<FanoutState>
    private let publisher: any Connection
    private let subscribers: [any Connection]
    private let readers: [Task<Void, Never>]

    /// Connects the subscribers, and then the publisher. Throws if one of them cannot connect. Call it on the loop.
    package static func connect(
        _ transport: TransportDescriptor,
        _ endpoint: Endpoint,
        subscribers count: Int,
        _ message: FanoutMessage,
        topic: String,
        _ limits: Limits,
        on loop: EventLoop
    ) async throws(TransportError) -> FanoutClients {
        var reading = endpoint
        reading.scheme = transport.name
        var writing = reading
        reading.options += transport.loopback(topic)
        // A broker would send the publisher its own messages.
        writing.options += transport.loopback(topic).filter { $0.name != "subscribe" }
        let context = ConnectionContext(on: loop)
        let (readers, writer) = (try transport.make(reading, context), try transport.make(writing, context))
        if message.count > writer.capabilities.maximumMessageSize {
            let limit = writer.capabilities.maximumMessageSize
            throw TransportError(
                .messageTooLarge,
                .configure,
                "the encoded message has \(message.count) bytes; the limit of \(transport.name) is \(limit)"
            )
        }
        var connections: [any Connection] = []
        do throws(TransportError) {
            for _ in 0..<count { connections.append(try await readers.connect(timeout: limits.connect)) }
            let publisher = try await writer.connect(timeout: limits.connect)
            return FanoutClients(publisher, connections, message, limits, on: loop)
        } catch {
            await close(connections, on: loop)
            throw error
        }
    }

    private init(
        _ publisher: any Connection,
        _ subscribers: [any Connection],
        _ message: FanoutMessage,
        _ limits: Limits,
        on loop: EventLoop
    ) {
        let isReliable = publisher.capabilities.isReliable && subscribers.allSatisfy(\.capabilities.isReliable)
        let timeout =
            limits.delivery?.wholeNanoseconds
            ?? EchoClient.answerTimeout(publisher.capabilities) + limits.slack.wholeNanoseconds
        let state = LoopBound(
            FanoutState(message, subscribers: subscribers.count, isReliable: isReliable, timeout: timeout, on: loop),
            to: loop
        )
        var readers = subscribers.enumerated().map { number, connection in
            Task(executorPreference: loop) {
                await Self.read(connection, state) { state.value.take($0, number) }
            }
        }
        // Some servers send the publisher its own messages.
        readers.append(Task(executorPreference: loop) { await Self.read(publisher, state) { _ in } })
        (self.state, self.publisher, self.subscribers, self.readers) = (state, publisher, subscribers, readers)
    }

    /// Receives messages until the connection ends, which is a failure, or the task is cancelled.
    private nonisolated(nonsending) static func read(
        _ connection: any Connection,
        _ state: LoopBound<FanoutState>,
        _ take: (Payload) -> Void
    ) async {
        do throws(TransportError) {
            while let payload = try await connection.receive() { take(payload) }
            state.value.fail("the server has closed a connection")
        } catch {
            if error.code != .cancelled { state.value.fail(error.sentence) }
        }
    }

    /// Publishes messages until the slice ends, a connection fails, or the task is cancelled. Deliveries that are in flight when
    /// the task is cancelled remain in flight in the accounts. Call it on the loop.
    package nonisolated(nonsending) func run(_ slice: Slice) async -> Outcome {
        let (state, publisher) = (state, publisher)
        let held = state.value
        held.counts.times = FanoutCounts.Times()
        let (before, start) = (held.counts.delivered, Clocks.monotonic())
        let work = Task(executorPreference: state.loop) {
            await Self.publish(slice, from: start, over: publisher, state.value)
        }
        held.begin(work)
        let watchdog = Task(executorPreference: state.loop) { await state.value.watch() }
        await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
            state.execute { state.value.wake() }
        }
        watchdog.cancel()
        // The row ends here, so it does not wait for other deliveries.
        if held.failure != nil { held.counts.loseRest() }
        return Outcome(
            times: held.counts.times,
            delivered: held.counts.delivered - before,
            elapsed: max(slice.interval == nil ? held.lastDelivery - start : held.publishingTime, 1)
        )
    }

    private nonisolated(nonsending) static func publish(
        _ slice: Slice,
        from start: Int64,
        over publisher: any Connection,
        _ held: FanoutState
    ) async {
        var count = 0
        while count < slice.messages, held.failure == nil, !Task.isCancelled {
            let due = slice.interval.map { start + Int64(count) * $0 } ?? Clocks.monotonic()
            guard due < slice.end else { break }
            if slice.interval != nil {
                await held.pause(until: due)
                if held.isReliable { await held.wait { !$0.isFull } }
                guard held.failure == nil, !Task.isCancelled else { break }
            }
            if let interval = slice.interval {
                let time = Clocks.monotonic() - start
                held.publishingTime = EchoState.scheduleTime(of: count + 1, interval, sentWithin: time)
            }
            let number = held.counts.send(intended: due)
            held.isSending = true
            let outcome = await publisher.send(held.message.payload(number))
            held.isSending = false
            count += 1
            switch outcome {
            case .written, .acknowledged: break
            case .rejected(let error), .unknown(let error):
                if error.code != .cancelled { held.fail("a message was not published: \(error.sentence)") }
            case .expired: held.fail("a message was not published: it expired")
            }
            if slice.interval == nil { await held.wait { $0.isComplete(number) } }
        }
        if slice.interval != nil { await held.wait { $0.incomplete == 0 } }
    }

    /// The accounts of all deliveries, the number of published messages, and the first failure. Call it on the loop.
    package var summary: (accounts: DeliveryCounts, messages: Int, failure: String?) {
        (state.value.counts.accounts, Int(clamping: state.value.counts.sent), state.value.failure)
    }

    /// Closes all connections. Call it on the loop.
    package func close() async {
        for reader in readers { reader.cancel() }
        for reader in readers { await reader.value }
        await Self.close(subscribers + [publisher], on: state.loop)
    }

    private static func close(_ connections: [any Connection], on loop: EventLoop) async {
        await withTaskGroup(of: Void.self) { group in
            for connection in connections { group.addTask(executorPreference: loop) { await connection.close() } }
        }
    }
}
