import Primitives

/// An event that a connection reports to its owner.
enum ConnectionEvent: Sendable {
    /// A message has arrived.
    case received(Payload)
    /// A ping was answered after this time.
    case pong(Duration)
    /// A message has its outcome.
    case settled(MessageID, SendOutcome)
    /// Whether messages are read. They are not read while the app does not take them.
    case reading(Bool)
    /// Whether there is room for messages. In a session they are read even without room.
    case taking(Bool)
    /// A message was discarded because of its size.
    case discarded(DiscardedMessage)
    /// The connection has ended.
    case ended(CloseReason)
}

/// The owner of a connection: a supervisor, or a session of a server. Lives on its runtime.
protocol ConnectionDelegate: AnyObject {
    var runtime: any SupervisorRuntime { get }
    /// The messages that have been received and not taken.
    var intake: Intake { get }
    var delivery: DeliveryConfiguration { get }
    /// The app has processed the message of this key, or has released it unprocessed.
    func processed(_ key: UInt64, isAbandoned: Bool)
    /// The memory that a connection uses for the owner has changed.
    func bufferChanged()
    /// The connection of this number reports an event.
    func happened(_ event: ConnectionEvent, on connection: Int)
}

/// One open connection for its owner: reads, sends and reports until it is closed. Lives on the owner's runtime.
final class ConnectionHandle {
    /// How many sends may wait for a connection that does not take them. A peer that respects the window never causes
    /// so many, because it would have to send without reading.
    private static let maximumSendsInFlight = 4096

    let owner: any ConnectionDelegate
    let number: Int
    let connection: any Connection
    /// The connection for direct calls, if it is on the same loop.
    let inline: (any InlineConnection)?
    /// A connection that acknowledges messages itself, over a broker, at a time that the app can choose.
    private let confirming: (any SameLoopConnection)?
    private var isConfirmedByHand = false
    /// Whether a send that returns at once is settled. It is not over a connection with its own acknowledgements.
    private let settlesAtOnce: Bool
    /// How many messages are taken beyond the room for them. In a session that is read without room, it is one window,
    /// which the peer sends without an acknowledgement, because acknowledgements for other messages come in between.
    /// Otherwise it equals the limit, for messages that an ended connection had received.
    private let excess: Int
    /// Whether the connection is read while there is no room. Nothing is acknowledged then.
    private let readsOn: Bool
    /// The number of sends in their own tasks that have not ended. No other send may overtake them.
    private var sendsInFlight = 0
    /// The owner has released the connection. Only outcomes of its messages are reported.
    private(set) var isClosed = false
    /// The connection has ended while it was not read, or is about to end.
    private var isOver = false
    private var isWatched = false
    /// Whether the owner was last notified that there is room.
    private var isTaking = true
    /// Continues reading, if that waits for room.
    private var reader: (() -> Void)?

    init(_ connection: any Connection, _ number: Int, _ owner: any ConnectionDelegate) {
        self.connection = connection
        self.number = number
        self.owner = owner
        let near = connection as? any SameLoopConnection
        inline = near?.here
        let style = Delivery.style(owner.delivery, connection.capabilities)
        let acknowledges = connection.capabilities.acknowledgesMessages || connection.capabilities.routesByTopic
        confirming = style != .session && acknowledges ? near : nil
        settlesAtOnce = !connection.capabilities.acknowledgesMessages
        // Over a connection that loses messages, an unacknowledged message is sent again and again.
        readsOn = style == .session && connection.capabilities.isReliable
        // The first message beyond the window shows a peer that does not respect it.
        excess = readsOn ? Int(SessionReceiver.window) + 1 : owner.intake.limit
        if owner.intake.isAcknowledgedByApp { confirmByHand(isRead: false) }
        inline?.reportDiscarded { [owner] in owner.happened(.discarded($0), on: number) }
    }

    /// The memory of pending sends in bytes, as a task for each and its message.
    var bufferedBytes: Int { sendsInFlight * 1024 }

    /// How many bytes the connection has received, if that is known at once; otherwise 0.
    var bytesReceived: UInt64 { inline?.bytesReceivedNow ?? 0 }

    /// Notifies the connection that the network has changed.
    func networkChanged() {
        if !isClosed { inline?.networkChanged() }
    }

    var confined: RuntimeBound<ConnectionHandle> { RuntimeBound(self, to: owner.runtime) }

    // MARK: Acknowledgement after processing

    /// From now on messages are acknowledged by ``confirm(_:)`` and not when the next one is requested. For a
    /// connection on another loop, call this before the connection is read.
    func confirmByHand(isRead: Bool) {
        guard let confirming, inline != nil || !isRead else { return }
        isConfirmedByHand = true
        confirming.confirmByHand()
    }

    /// Acknowledges the `count` oldest messages that were not acknowledged.
    func confirm(_ count: Int) {
        if isConfirmedByHand { confirming?.confirm(count) }
    }

    private func report(_ event: ConnectionEvent) {
        if !isClosed { owner.happened(event, on: number) }
    }

    // MARK: Sending

    /// Sends a message. With an identifier, the outcome is reported.
    func transmit(_ id: MessageID?, _ payload: Payload) {
        if settlesAtOnce, sendsInFlight == 0, let inline, let outcome = inline.sendUnlessWaiting(payload) {
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
        if case .rejected(let error) = outcome, !error.isFinal { giveUp(error) }
        if let id { owner.happened(.settled(id, outcome), on: number) }
    }

    /// Sends the protocol's own ping. A failure is not reported, because silence shows it.
    func ping() {
        Task(executorPreference: owner.runtime.taskExecutor) { [connection, confined] in
            do throws(TransportError) {
                let time = try await connection.ping()
                confined.value.report(.pong(time))
            } catch {}
        }
    }

    // MARK: Reading

    // Messages are requested one by one: by a call if the connection is on the same loop, and otherwise by a task.
    // Either way, requesting the next message confirms the one before to the peer.

    /// Reads and reports until the connection ends. For a connection on the same loop, it only starts that.
    ///
    /// - Parameter isWelcomed: Whether the welcome of the session has already arrived. Until then, a session that is
    ///   read without room is read in any case.
    static func read(_ handle: RuntimeBound<ConnectionHandle>, isWelcomed: Bool) async {
        handle.value.noteRoom()
        let mustPause = (isWelcomed || !handle.value.readsOn) && handle.value.isOverfull
        if handle.value.inline != nil { return mustPause ? handle.value.readLater() : handle.value.readHere() }
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
        handle.value.takeAgain()
        handle.value.report(.ended(reason))
    }

    /// Whether an ended connection is read no further, because the owner's buffers are full.
    private var mustStop: Bool { isOver && isOverfull }

    private var isOverfull: Bool { owner.intake.isFull(beyond: excess) }

    private func mustPause(after payload: Payload) -> Bool {
        report(.received(payload))
        noteRoom()
        guard !isClosed, readsOn ? isOverfull : !owner.intake.hasRoom else { return false }
        // The message was reported. The next request, which confirms it to the peer, can come after the end of the
        // connection.
        inline?.confirmTaken()
        return !isOver
    }

    // MARK: Room

    /// Notifies the owner of a session that there is no room, and later that there is.
    private func noteRoom() {
        guard readsOn, isTaking, !isClosed, !owner.intake.hasRoom else { return }
        isTaking = false
        owner.intake.onRoom = { [self] in roomMade() }
        owner.happened(.taking(false), on: number)
    }

    private func roomMade() {
        takeAgain()
        resumeReading()
    }

    private func takeAgain() {
        guard !isTaking else { return }
        isTaking = true
        owner.intake.onRoom = nil
        owner.happened(.taking(true), on: number)
    }

    private static func pause(_ handle: RuntimeBound<ConnectionHandle>) async {
        await withUnsafeContinuation { continuation in handle.value.waitForRoom { continuation.resume() } }
    }

    private func waitForRoom(_ goOn: @escaping () -> Void) {
        guard !owner.intake.hasRoom, !isClosed, !isOver else { return goOn() }
        reader = goOn
        report(.reading(false))
        owner.intake.onRoom = { [self] in roomMade() }
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

    private func resumeReading() {
        guard let goOn = reader.take() else { return }
        owner.intake.onRoom = nil
        // This also applies to a released connection, because the next one is read from its beginning.
        owner.happened(.reading(true), on: number)
        goOn()
    }

    // MARK: The end

    /// Closes the connection. The task ends when the connection is closed, with the number of undelivered bytes.
    @discardableResult
    func close(_ reason: CloseReason) -> Task<Int, Never> {
        isClosed = true
        takeAgain()
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
        guard let inline else {
            close(reason)
            return
        }
        isClosed = true
        takeAgain()
        resumeReading()
        inline.abandon(reason)
    }
}

// MARK: A connection on the same loop

extension ConnectionHandle: ConnectionReceiver {
    /// The requested message has come. The connection accepts sends and its close during this call, as it does from a
    /// server's handler.
    func receive(_ arrival: Result<Payload?, TransportError>) {
        if goesOn(after: arrival) { readHere() }
    }

    /// Takes the messages that have come, and requests a call for the next one.
    private func readHere() {
        guard let inline else { return }
        while !isClosed {
            guard !mustStop else { return endHere(nil) }
            guard let arrival = inline.receiveNow(orTell: self), goesOn(after: arrival) else { return }
        }
    }

    /// Reports a message or the end. Returns whether to request the next message now.
    private func goesOn(after arrival: Result<Payload?, TransportError>) -> Bool {
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
