/// What a link reports to whoever runs it.
enum LinkEvent: Sendable {
    case received(Payload)
    case pong(Duration)
    case settled(MessageID, SendOutcome)
    /// Messages are not taken any more, so that nothing is read; or they are again.
    case reading(Bool)
    case ended(CloseReason)
}

/// Who runs a link. Lives on its runtime.
protocol LinkOwner: AnyObject {
    var runtime: any SupervisorRuntime { get }
    /// What has been received and is not taken yet.
    var messages: Broadcast<Payload> { get }
    /// The link of this number reports something.
    func happened(_ event: LinkEvent, on link: Int)
}

/// One live link in the hands of its owner: reads it, sends over it, and reports, until it is closed. Lives on the owner's
/// runtime.
final class LinkPort {
    private let owner: any LinkOwner
    private let number: Int
    private let link: any Link
    private let immediate: (any ImmediateLink)?
    /// Whether what was handed over at once is settled: not over a link with acknowledgements of its own.
    private let settlesAtOnce: Bool
    /// Sends that were begun in tasks of their own and have not ended: nothing may overtake them.
    private var sendsUnderWay = 0
    /// The owner has let go of it: nothing more is reported but what became of its messages.
    private var isClosed = false
    private var reader: UnsafeContinuation<Void, Never>?

    init(_ link: any Link, _ number: Int, _ owner: any LinkOwner) {
        self.link = link
        self.number = number
        self.owner = owner
        immediate = link as? any ImmediateLink
        settlesAtOnce = !link.capabilities.acknowledgesMessages
    }

    /// What the link has received, where that can be known at once.
    var bytesReceived: UInt64 { immediate?.bytesReceivedNow ?? 0 }

    private var confined: RuntimeConfined<LinkPort> { RuntimeConfined(self, to: owner.runtime) }

    // MARK: Reading

    /// Reads and reports until the link ends.
    static func read(_ port: RuntimeConfined<LinkPort>) async {
        let link = port.value.link
        do throws(TransportError) {
            while let payload = try await link.receive() {
                if port.value.mustPause(after: payload) { await pause(port) }
                // What was not reported must not be confirmed by asking for more.
                if port.value.isClosed { break }
            }
        } catch {
            if error.code == .cancelled { return }
        }
        let reason = await link.closed()
        port.value.report(.ended(reason))
    }

    private func mustPause(after payload: Payload) -> Bool {
        report(.received(payload))
        return !owner.messages.hasRoom && !isClosed
    }

    private static func pause(_ port: RuntimeConfined<LinkPort>) async {
        await withUnsafeContinuation { port.value.waitForRoom($0) }
    }

    private func waitForRoom(_ continuation: UnsafeContinuation<Void, Never>) {
        guard !owner.messages.hasRoom, !isClosed else { return continuation.resume() }
        reader = continuation
        report(.reading(false))
        owner.messages.onRoom = { [self] in resumeReading() }
    }

    private func resumeReading() {
        guard let reader = reader.take() else { return }
        owner.messages.onRoom = nil
        report(.reading(true))
        reader.resume()
    }

    private func report(_ event: LinkEvent) {
        if !isClosed { owner.happened(event, on: number) }
    }

    // MARK: Sending

    /// Sends; with an identifier, the outcome is reported.
    func transmit(_ id: MessageID?, _ payload: Payload) {
        if settlesAtOnce, sendsUnderWay == 0, let immediate, let outcome = immediate.sendNow(payload) {
            if let id { owner.happened(.settled(id, outcome), on: number) }
            return
        }
        sendsUnderWay += 1
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            let outcome = await link.send(payload)
            confined.value.settled(id, outcome)
        }
    }

    private func settled(_ id: MessageID?, _ outcome: SendOutcome) {
        sendsUnderWay -= 1
        if let id { owner.happened(.settled(id, outcome), on: number) }
    }

    /// Sends the protocol's own ping. A failure is not reported: silence speaks for itself.
    func ping() {
        Task(executorPreference: owner.runtime.taskExecutor) { [link, confined] in
            do throws(TransportError) {
                let time = try await link.ping()
                confined.value.report(.pong(time))
            } catch {}
        }
    }

    /// Says goodbye and ends the link.
    func close(_ reason: CloseReason) {
        isClosed = true
        resumeReading()
        Task(executorPreference: owner.runtime.taskExecutor) { [link] in await link.close(reason) }
    }

    /// Ends a link on which there is no point in waiting for an answer.
    func abandon(_ reason: CloseReason) {
        guard let immediate else { return close(reason) }
        isClosed = true
        resumeReading()
        immediate.abandon(reason)
    }
}
