/// One attempt of a supervisor, and the link that it gives. Lives on the shell's runtime.
final class LinkAttempt {
    private let shell: SupervisorShell
    private let number: Int
    let endpoint: Endpoint
    private var task: Task<Void, Never>?
    /// The link, once it is there.
    private(set) var port: LinkPort?
    private var isAbandoned = false

    init(_ shell: SupervisorShell, _ number: Int, _ endpoint: Endpoint, timeout: Duration, isRefresh: Bool) {
        self.shell = shell
        self.number = number
        self.endpoint = endpoint
        task = Self.start(RuntimeConfined(self, to: shell.runtime), endpoint, timeout, isRefresh)
    }

    private static func start(
        _ attempt: RuntimeConfined<LinkAttempt>,
        _ endpoint: Endpoint,
        _ timeout: Duration,
        _ isRefresh: Bool
    ) -> Task<Void, Never> {
        Task(executorPreference: attempt.runtime.taskExecutor) {
            let preparation = attempt.value.shell.preparation
            let link: any Link
            do throws(TransportError) {
                let prepared = try await prepare(endpoint, preparation, isRefresh)
                // An older one must not leave its recipe to the next.
                guard !Task.isCancelled else { throw .cancelledSend }
                let transport = try attempt.value.shell.transport(to: endpoint, as: prepared)
                link = try await transport.connect(timeout: timeout)
            } catch {
                return attempt.value.failed(error)
            }
            guard let port = attempt.value.connected(link) else {
                await link.close()
                return
            }
            await LinkPort.read(port, isGreeted: false)
        }
    }

    static func prepare(
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
        shell.attempts[number] = nil
        shell.handle(.failed(number, error))
    }

    /// The link is there; `nil` if it is not wanted any more.
    private func connected(_ link: any Link) -> RuntimeConfined<LinkPort>? {
        guard !isAbandoned else { return nil }
        let port = LinkPort(link, number, shell)
        self.port = port
        shell.onLink?(link, endpoint)
        shell.handle(.connected(number, link.capabilities))
        return RuntimeConfined(port, to: shell.runtime)
    }

    /// Ends the attempt, or its link with a goodbye. Nothing more is reported but what became of its messages.
    ///
    /// - Returns: a task that ends when the connection is closed, with the number of undelivered bytes.
    @discardableResult
    func close(_ reason: CloseReason) -> Task<Int, Never>? {
        isAbandoned = true
        if let port { return port.close(reason) }
        task?.cancel()
        return nil
    }

    /// As ``close(_:)``, without waiting for an answer to the goodbye.
    func abandon(_ reason: CloseReason) {
        isAbandoned = true
        if let port { port.abandon(reason) } else { task?.cancel() }
    }
}
