import Primitives

/// The owner of a connection: a supervisor, or a session of a server. Lives on its runtime.
protocol ConnectionDelegate: AnyObject {
    var runtime: any SupervisorRuntime { get }
    /// The messages that have been received and not taken.
    var inbound: InboundBuffer { get }
    var delivery: DeliveryConfiguration { get }
    /// The app has processed the message of this key, or has released it unprocessed.
    func processed(_ key: UInt64, isAbandoned: Bool)
    /// Whether an acknowledgement of the message of this key still has an effect.
    func isUnprocessed(_ key: UInt64) -> Bool
    /// The memory that a connection uses for the owner has changed.
    func bufferChanged()
    /// A connection reports an event.
    func handle(_ event: ConversationEvent)
}

/// One open connection for its owner: reads, sends and reports until it is closed. Lives on the owner's runtime.
final class ConnectionHandle {
    /// The handling of messages for which there is no room.
    private enum Overflow {
        /// The connection is not read. After its end, as many messages as the limit are taken beyond it.
        case unread
        /// In a session over a connection that loses nothing: one window is taken beyond the limit, which the peer
        /// sends without an acknowledgement. More is not read.
        case window
        /// In a session over a connection that loses messages: the connection is always read. Its owner drops the
        /// messages, and the peer repeats them.
        case dropped
    }

    /// How many sends may wait for a connection that does not take them. A peer that respects the window never causes
    /// so many, because it would have to send without reading.
    private static let maximumSendsInFlight = 4096

    let owner: any ConnectionDelegate
    let number: Int
    let connection: any Connection
    /// The connection for direct calls, if it is on the same loop.
    let here: (any LocalConnection)?
    /// A connection that acknowledges messages itself, over a broker, at a time that the app can choose.
    private let confirming: (any LocalConnection)?
    private var isConfirmedByHand = false
    /// Whether a send that returns at once is settled. It is not over a connection with its own acknowledgements.
    private let settlesAtOnce: Bool
    private let overflow: Overflow
    /// The last value that was reported to the owner.
    private var reading = Reading.all
    /// The number of sends in their own tasks that have not ended. No other send may overtake them.
    private var sendsInFlight = 0
    /// The owner has released the connection. Only outcomes of its messages are reported.
    private(set) var isClosed = false
    /// The connection has ended while it was not read, or is about to end.
    private var isOver = false
    private var isWatched = false
    /// Continues reading, if that waits for room.
    private var reader: (() -> Void)?

    init(_ connection: any Connection, _ number: Int, _ owner: any ConnectionDelegate) {
        self.connection = connection
        self.number = number
        self.owner = owner
        let local = connection as? any LocalConnection
        here = local?.isHere == true ? local : nil
        let style = Delivery.style(owner.delivery, connection.capabilities)
        let acknowledges = connection.capabilities.acknowledgesMessages || connection.capabilities.routesByTopic
        confirming = style != .session && acknowledges ? local : nil
        settlesAtOnce = !connection.capabilities.acknowledgesMessages
        overflow = style != .session ? .unread : connection.capabilities.isReliable ? .window : .dropped
        if owner.inbound.isAcknowledgedByApp { confirmByHand(isRead: false) }
        here?.reportDiscarded { [owner] in owner.handle(.discarded($0)) }
    }

    /// The memory of pending sends in bytes, as a task for each and its message.
    var bufferedBytes: Int { sendsInFlight * 1024 }

    /// Reads what has arrived, and returns the signs of life. A connection on another loop has none except its events.
    func readSignsOfLife() -> SignsOfLife { here?.readSignsOfLife() ?? SignsOfLife() }

    /// Notifies the connection that the network has changed.
    func networkChanged() {
        if !isClosed { here?.networkChanged() }
    }

    var confined: RuntimeBound<ConnectionHandle> { RuntimeBound(self, to: owner.runtime) }

    // MARK: Acknowledgement after processing

    /// From now on messages are acknowledged by ``confirm(_:)`` and not when the next one is requested. For a
    /// connection on another loop, call this before the connection is read.
    func confirmByHand(isRead: Bool) {
        guard let confirming, here != nil || !isRead else { return }
        isConfirmedByHand = true
        confirming.confirmByHand()
    }

    /// Acknowledges the `count` oldest messages that were not acknowledged.
    func confirm(_ count: Int) {
        if isConfirmedByHand { confirming?.confirm(count) }
    }

    private func report(_ event: ConversationEvent) {
        if !isClosed { owner.handle(event) }
    }

    // MARK: Sending

    /// Sends a message. With an identifier, the outcome is reported.
    func transmit(_ id: MessageID?, _ payload: Payload) {
        if settlesAtOnce, sendsInFlight == 0, let here, let outcome = here.sendUnlessWaiting(payload) {
            return settled(id, outcome)
        }
        begin(id) { connection in
            guard let id, connection.capabilities.completesSends else { return await connection.send(payload) }
            return await connection.send(payload, as: id, isRepeated: false)
        }
    }

    /// Completes a message that an earlier connection has sent, and reports the outcome.
    ///
    /// - Parameter orSend: Whether a connection that does not know the message sends it again.
    func complete(_ id: MessageID, _ payload: Payload, orSend: Bool) {
        begin(id) { connection in
            let outcome = await connection.send(payload, as: id, isRepeated: true)
            guard orSend, case .unknown(let error) = outcome, error.code == .notFound else { return outcome }
            return await connection.send(payload, as: id, isRepeated: false)
        }
    }

    /// Sends in its own task, unless too many sends are pending.
    @inline(__always)
    private func begin(_ id: MessageID?, _ send: @escaping @Sendable (any Connection) async -> SendOutcome) {
        guard sendsInFlight < Self.maximumSendsInFlight else {
            let error = TransportError(.bufferFull, .open, "the peer sends, but does not read")
            giveUp(error)
            return settled(id, .rejected(error))
        }
        sendsInFlight += 1
        Task(executorPreference: owner.runtime.taskExecutor) { [connection, confined] in
            let outcome = await send(connection)
            confined.value.sendsInFlight -= 1
            confined.value.owner.bufferChanged()
            confined.value.settled(id, outcome)
        }
    }

    private func settled(_ id: MessageID?, _ outcome: SendOutcome) {
        // The connection is unusable, and the message waits for the next one.
        if case .rejected(let error) = outcome, !error.refusesMessage { giveUp(error) }
        if let id { owner.handle(.settled(number, id, outcome)) }
    }

    /// Sends the protocol's own ping. A failure is not reported, because silence shows it.
    func ping() {
        Task(executorPreference: owner.runtime.taskExecutor) { [connection, confined] in
            do throws(TransportError) {
                let time = try await connection.ping()
                confined.value.report(.pong(confined.value.number, time))
            } catch {}
        }
    }

    // MARK: Reading

    // Messages are requested one by one: by a call if the connection is on the same loop, and otherwise by a task.
    // Either way, requesting the next message confirms the one before to the peer.

    /// Reads and reports until the connection ends. For a connection on the same loop, it only starts that.
    ///
    /// - Parameter isWelcomed: Whether the welcome of the session has already arrived. Until then, a session is read in
    ///   any case.
    static func read(_ handle: RuntimeBound<ConnectionHandle>, isWelcomed: Bool) async {
        let mustPause = handle.value.mustPauseAtStart(isWelcomed: isWelcomed)
        if handle.value.here != nil { return mustPause ? handle.value.readLater() : handle.value.readHere() }
        if mustPause { await pause(handle) }
        let connection = handle.value.connection
        var failure: TransportError?
        do throws(TransportError) {
            while !handle.value.mustStop, let payload = try await connection.receive() {
                if handle.value.mustPause(after: payload) { await pause(handle) }
                // Requesting more would confirm a message that was not reported.
                if handle.value.isClosed { break }
            }
        } catch {
            failure = error
        }
        await end(handle, failure)
    }

    /// Reports the end of the connection, because no more messages come.
    private static func end(_ handle: RuntimeBound<ConnectionHandle>, _ failure: TransportError?) async {
        let connection = handle.value.connection
        // Usually the connection has ended by then. If it has not, it can't be read any more. The close is not awaited,
        // because it can take long, and the next connection is opened now.
        if let failure { handle.value.end(CloseReason(failure)) }
        let reason = await connection.closed()
        handle.value.resumeReading()
        handle.value.report(.ended(handle.value.number, reason))
    }

    /// Whether an ended connection is read no further, because the owner's buffers are full.
    private var mustStop: Bool { isOver && isOverfull }

    /// Whether no message is taken any more, not even beyond the limit.
    private var isOverfull: Bool {
        switch overflow {
        case .unread: owner.inbound.isFull(beyond: owner.inbound.limit)
        // The first message beyond the window shows a peer that does not respect it.
        case .window: owner.inbound.isFull(beyond: Int(SessionReceiver.window) + 1)
        case .dropped: false
        }
    }

    private func mustPauseAtStart(isWelcomed: Bool) -> Bool {
        guard !isClosed, !owner.inbound.hasRoom else { return false }
        // Even one message for each of many connections would fill the memory of an app that acknowledges nothing.
        guard overflow != .unread else { return true }
        note(.withoutRoom)
        return isOverfull && isWelcomed
    }

    private func mustPause(after payload: Payload) -> Bool {
        report(.received(number, payload))
        guard !isClosed, !owner.inbound.hasRoom else { return false }
        if overflow != .unread {
            note(.withoutRoom)
            guard isOverfull else { return false }
        }
        // The message was reported. The next request, which confirms it to the peer, can come after the end of the
        // connection.
        here?.confirmTaken()
        return !isOver
    }

    // MARK: Room

    /// Notifies the owner that less is read until there is room, or that everything is read again. This also applies to
    /// a released connection, because the next one is read from its beginning.
    private func note(_ reading: Reading) {
        guard reading != self.reading else { return }
        self.reading = reading
        owner.inbound.onRoom = reading == .all ? nil : { [self] in resumeReading() }
        owner.handle(.reading(reading))
    }

    private func resumeReading() {
        note(.all)
        reader.take()?()
    }

    private static func pause(_ handle: RuntimeBound<ConnectionHandle>) async {
        await withUnsafeContinuation { continuation in handle.value.waitForRoom { continuation.resume() } }
    }

    private func waitForRoom(_ goOn: @escaping () -> Void) {
        guard !owner.inbound.hasRoom, !isClosed, !isOver else { return goOn() }
        reader = goOn
        note(.nothing)
        watch()
    }

    /// Notices the end of a connection even while the app takes no messages.
    private func watch() {
        guard !isWatched else { return }
        isWatched = true
        Task(executorPreference: owner.runtime.taskExecutor) { [connection, confined] in
            _ = await connection.closed()
            confined.value.isOver = true
            confined.value.resumeReading()
        }
    }

    // MARK: The end

    /// Closes the connection. The task ends when the connection is closed, with the number of undelivered bytes.
    @discardableResult
    func close(_ reason: CloseReason) -> Task<Int, Never> {
        isClosed = true
        resumeReading()
        return end(reason)
    }

    private func giveUp(_ error: TransportError) {
        guard !isOver, !isClosed else { return }
        isOver = true
        resumeReading()
        end(CloseReason(error))
    }

    @discardableResult
    private func end(_ reason: CloseReason) -> Task<Int, Never> {
        Task(executorPreference: owner.runtime.taskExecutor) { [connection] in await connection.close(reason) }
    }

    /// Ends the connection without waiting for an answer of the peer.
    func abandon(_ reason: CloseReason) {
        guard let here else {
            close(reason)
            return
        }
        isClosed = true
        resumeReading()
        here.abandon(reason)
    }
}

// MARK: A connection on the same loop

extension ConnectionHandle: ConnectionReceiver {
    /// The requested message has come. The connection accepts sends and its close during this call, as it does from a
    /// server's handler.
    func receive(_ arrival: Result<Payload?, TransportError>) {
        if handleArrival(arrival) { readHere() }
    }

    /// Takes the messages that have come, and requests a call for the next one.
    private func readHere() {
        guard let here else { return }
        while !isClosed {
            guard !mustStop else { return endHere(nil) }
            guard let arrival = here.receiveNow(orTell: self), handleArrival(arrival) else { return }
        }
    }

    /// Reports a message or the end. Returns whether to request the next message now.
    private func handleArrival(_ arrival: Result<Payload?, TransportError>) -> Bool {
        switch arrival {
        case .success(let payload?):
            guard mustPause(after: payload) else { return true }
            readLater()
        case .success(nil): endHere(nil)
        case .failure(let error): endHere(error)
        }
        return false
    }

    /// Continues when there is room, in its own job, because the code that makes room is still running.
    private func readLater() {
        waitForRoom { [confined] in confined.execute { confined.value.readHere() } }
    }

    private func endHere(_ failure: TransportError?) {
        let handle = confined
        Task(executorPreference: owner.runtime.taskExecutor) { await ConnectionHandle.end(handle, failure) }
    }
}
