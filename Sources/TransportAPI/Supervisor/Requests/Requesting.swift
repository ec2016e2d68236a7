import Primitives

// Requests as the app sees them, alike at both sides.

extension Supervisor {
    /// Sends a request and waits for its answer, which does not come among ``messages`` or ``deliveries``.
    ///
    /// The peer answers by ``Session/onRequest(on:_:)``, over any transport, in plain mode and in a session. In a session the
    /// request survives reconnects: it is sent again and handled once. In plain mode it ends with the connection over which
    /// it was sent. With a store, the request is stored like any other message; the next process sends it, and drops its
    /// answer.
    ///
    /// - Parameters:
    ///   - payload: The content of the request. It arrives as `.binary`.
    ///   - timeout: How long to wait for the answer, including the time without a connection.
    /// - Returns: The content of the answer, as `.binary`.
    /// - Throws: The reason why there is no answer. ``RequestError/notSent(_:)`` and ``RequestError/tooManyRequests`` mean
    ///   that the peer has not got the request.
    public nonisolated(nonsending) func request(
        _ payload: Payload,
        timeout: Duration
    ) async throws(RequestError) -> Payload {
        let deadline = await driver.run(with: timeout) { $0.runtime.clock.advanced(by: $1) }
        if let error = await openStore(until: deadline) { throw .notSent(error) }
        return try await driver.suspend(with: (id: WaitID.next(), payload: payload, deadline: deadline), #isolation) {
            $0.useRequests().begin($1.id, $1.payload, until: $1.deadline, $2)
        } onCancel: {
            $0.useRequests().cancel($1.id)
        }.get()
    }

    /// Answers the requests of the peer from now on. Set this before ``connect()``. A later call replaces the handler, and
    /// `nil` refuses all requests with ``RequestFailure/noHandler``.
    ///
    /// - Parameters:
    ///   - executor: Where the handler runs; by default on Swift's shared threads. A handler that needs little processor
    ///     time can run on the event loop of the supervisor, without a change of threads.
    ///   - handler: Called with each request, and returns its answer. A thrown ``RequestFailure`` is the answer of a
    ///     request that has failed. Up to ``RequestConfiguration/maximumHandlers`` calls run at the same time, so answers
    ///     may overtake one another. A request is acknowledged when its answer is in the outbox, or after
    ///     ``RequestConfiguration/acknowledgementDelay``, and messages after it are acknowledged after it. The task of a
    ///     call is cancelled when the supervisor ends.
    public func onRequest(on executor: (any TaskExecutor)? = nil, _ handler: RequestHandler?) {
        if runtime.isCurrent {
            driver.value.useRequests().answer(with: handler, on: executor)
        } else {
            runtime.execute { [driver] in driver.value.useRequests().answer(with: handler, on: executor) }
        }
    }
}

extension Session {
    /// Sends a request to the client and waits for its answer; see ``Supervisor/request(_:timeout:)``. The client answers by
    /// ``Supervisor/onRequest(on:_:)``.
    ///
    /// - Throws: The reason why there is no answer. It is ``RequestError/unknown(_:)`` also if the client's process has
    ///   restarted.
    public nonisolated(nonsending) func request(
        _ payload: Payload,
        timeout: Duration
    ) async throws(RequestError) -> Payload {
        try await driver.suspend(with: (id: WaitID.next(), payload: payload, timeout: timeout), #isolation) {
            $0.useRequests().begin($1.id, $1.payload, until: $0.runtime.clock.advanced(by: $1.timeout), $2)
        } onCancel: {
            $0.useRequests().cancel($1.id)
        }.get()
    }

    /// Answers the requests of the client from now on, as ``Supervisor/onRequest(on:_:)`` does. Call this in `onSession`, before
    /// the first message. A session that uses no requests gives them to ``messages``.
    ///
    /// A server that is killed before it has answered gets the request again
    /// (``RequestConfiguration/acknowledgementDelay``), so a request may be handled twice if the server loses its sessions.
    public func onRequest(on executor: (any TaskExecutor)? = nil, _ handler: RequestHandler?) {
        if runtime.isCurrent {
            driver.value.useRequests().answer(with: handler, on: executor)
        } else {
            runtime.execute { [driver] in driver.value.useRequests().answer(with: handler, on: executor) }
        }
    }
}
