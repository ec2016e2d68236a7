/// One attempt of a supervisor and the link that it gives: connects, reads, sends, and reports. Lives on the shell's runtime.
final class LinkRunner {
    private let shell: SupervisorShell
    private let number: Int
    private var task: Task<Void, Never>?
    private var link: (any Link)?
    private var immediate: (any ImmediateLink)?
    /// Sends that have been begun in tasks of their own and have not reached the link: nothing may overtake them.
    private var sendsUnderWay = 0
    /// The shell has let go of it: nothing more is reported.
    private var isAbandoned = false
    private var reader: UnsafeContinuation<Void, Never>?

    init(_ shell: SupervisorShell, _ number: Int, _ endpoint: Endpoint, timeout: Duration, isRefresh: Bool) {
        self.shell = shell
        self.number = number
        task = Self.start(RuntimeConfined(self, to: shell.runtime), endpoint, timeout, isRefresh)
    }

    private static func start(
        _ runner: RuntimeConfined<LinkRunner>,
        _ endpoint: Endpoint,
        _ timeout: Duration,
        _ isRefresh: Bool
    ) -> Task<Void, Never> {
        Task(executorPreference: runner.runtime.taskExecutor) { await run(runner, endpoint, timeout, isRefresh) }
    }

    /// What the link has received, where that can be known at once.
    var bytesReceived: UInt64 { immediate?.bytesReceivedNow ?? 0 }

    // MARK: The attempt

    private static func run(
        _ runner: RuntimeConfined<LinkRunner>,
        _ endpoint: Endpoint,
        _ timeout: Duration,
        _ isRefresh: Bool
    ) async {
        let (factory, preparation) = (runner.value.shell.factory, runner.value.shell.preparation)
        let link: any Link
        do throws(TransportError) {
            let prepared = try await prepare(endpoint, preparation, isRefresh)
            link = try await factory(prepared).connect(timeout: timeout)
        } catch {
            return runner.value.failed(error)
        }
        guard runner.value.connected(link) else { return await link.close() }
        await read(runner, link)
    }

    private static func prepare(
        _ endpoint: Endpoint,
        _ preparation: EndpointPreparation?,
        _ isRefresh: Bool
    ) async throws(TransportError) -> Endpoint {
        guard let preparation else { return endpoint }
        do {
            return try await preparation(endpoint, isRefresh)
        } catch let error as TransportError {
            throw error
        } catch {
            throw TransportError(.systemError, .configure, "the endpoint could not be prepared: \(error)")
        }
    }

    private func failed(_ error: TransportError) {
        guard !isAbandoned else { return }
        shell.links[number] = nil
        shell.handle(.failed(number, error))
    }

    /// Whether the link is wanted.
    private func connected(_ link: any Link) -> Bool {
        guard !isAbandoned else { return false }
        self.link = link
        immediate = link.capabilities.acknowledgesMessages ? nil : link as? any ImmediateLink
        shell.handle(.connected(number, link.capabilities))
        return true
    }

    // MARK: Reading

    private static func read(_ runner: RuntimeConfined<LinkRunner>, _ link: any Link) async {
        do throws(TransportError) {
            while let payload = try await link.receive() {
                guard runner.value.received(payload) else { continue }
                await runner.value.shell.runtimePause(runner)
            }
        } catch {
            if error.code == .cancelled { return }
        }
        let reason = await link.closed()
        runner.value.ended(reason)
    }

    /// Whether reading has to pause, because somebody who listens does not keep up.
    private func received(_ payload: Payload) -> Bool {
        guard !isAbandoned else { return false }
        shell.handle(.received(number, payload))
        return !shell.hasRoom && !isAbandoned
    }

    func waitForRoom(_ continuation: UnsafeContinuation<Void, Never>) {
        guard !shell.hasRoom, !isAbandoned else { return continuation.resume() }
        reader = continuation
        shell.handle(.reading(false))
        shell.messages.onRoom = { [self] in resumeReading() }
    }

    private func resumeReading() {
        guard let reader = reader.take() else { return }
        shell.messages.onRoom = nil
        if !isAbandoned { shell.handle(.reading(true)) }
        reader.resume()
    }

    private func ended(_ reason: CloseReason) {
        link = nil
        immediate = nil
        guard !isAbandoned else { return }
        shell.links[number] = nil
        shell.handle(.ended(number, reason))
    }

    // MARK: Sending

    func transmit(_ id: MessageID?, _ payload: Payload) {
        guard let link else { return }
        if sendsUnderWay == 0, let immediate, let outcome = immediate.sendNow(payload) {
            if let id { shell.handle(.settled(number, id, outcome)) }
            return
        }
        sendsUnderWay += 1
        let confined = RuntimeConfined(self, to: shell.runtime)
        Task(executorPreference: shell.runtime.taskExecutor) {
            let outcome = await link.send(payload)
            confined.value.sendsUnderWay -= 1
            if let id { confined.value.shell.handle(.settled(confined.value.number, id, outcome)) }
        }
    }

    func ping() {
        guard let link else { return }
        let confined = RuntimeConfined(self, to: shell.runtime)
        Task(executorPreference: shell.runtime.taskExecutor) {
            do throws(TransportError) {
                let time = try await link.ping()
                if !confined.value.isAbandoned { confined.value.shell.handle(.pong(confined.value.number, time)) }
            } catch {
                // The silence speaks for itself.
            }
        }
    }

    // MARK: The end

    /// Ends the attempt or the link, of which nothing more is reported but what became of its messages.
    func abandon() {
        close(CloseReason(.keepalive))
    }

    func close(_ reason: CloseReason) {
        isAbandoned = true
        resumeReading()
        guard let link = link.take() else {
            task?.cancel()
            return
        }
        immediate = nil
        Task(executorPreference: shell.runtime.taskExecutor) { await link.close(reason) }
    }
}

extension SupervisorShell {
    /// Waits until the messages that were received have been taken.
    fileprivate nonisolated(nonsending) func runtimePause(_ runner: RuntimeConfined<LinkRunner>) async {
        await withUnsafeContinuation { runner.value.waitForRoom($0) }
    }
}
