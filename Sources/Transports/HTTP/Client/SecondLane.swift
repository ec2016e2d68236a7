import SocketIO
import TransportAPI

/// The connection for the requests that send, which is opened while the server answers the first request, so that the first
/// message does not wait for it. Lives on its loop.
final class SecondLane {
    private let loop: EventLoop
    private let dialing: Task<Result<LoopBound<HTTPLane>, TransportError>, Never>
    private var isTaken = false

    /// Begins to open the connection.
    init(on loop: EventLoop, _ dial: @escaping @Sendable () async throws(TransportError) -> LoopBound<HTTPLane>) {
        self.loop = loop
        dialing = Task(executorPreference: loop) {
            do throws(TransportError) { return .success(try await dial()) } catch { return .failure(error) }
        }
    }

    /// The connection, once it is open.
    ///
    /// - Parameter first: The connection that has opened the session. It is closed if there is no second one.
    /// - Throws: Why it could not be opened. Then no message could be sent.
    nonisolated(nonsending) func lane(beside first: HTTPLane) async throws(TransportError) -> HTTPLane {
        let dialing = dialing
        let result = await withTaskCancellationHandler {
            await dialing.value
        } onCancel: {
            dialing.cancel()
        }
        isTaken = true
        do throws(TransportError) {
            return try result.get().value
        } catch {
            first.close(abort: true)
            throw error
        }
    }

    /// Closes the connection, unless somebody has taken it.
    func abandon() {
        guard !isTaken else { return }
        isTaken = true
        dialing.cancel()
        Task(executorPreference: loop) { [dialing] in
            if case .success(let lane) = await dialing.value { lane.value.close(abort: true) }
        }
    }
}
