import Protocols
import SocketIO
import TransportAPI

/// One request of a client whose whole answer a task awaits, such as the one that opens a session. Lives on its loop.
final class HTTPCall: HTTPLaneUser {
    /// A whole answer.
    struct Answer: Sendable {
        var head: HTTPHead
        var status: Int
        var body: [UInt8] = []
    }

    /// The largest body in bytes.
    private static let largestBody = 16 << 10

    private let loop: EventLoop
    private var answer: Answer?
    private var waiter: UnsafeContinuation<Result<Answer, TransportError>, Never>?
    private var timer: UInt64?
    private let lane: HTTPLane

    private init(_ lane: HTTPLane, on loop: EventLoop) {
        (self.lane, self.loop) = (lane, loop)
    }

    /// Sends a request and returns its answer. The lane can carry other requests afterwards, unless it has ended. Call this
    /// on the loop.
    ///
    /// - Parameters:
    ///   - deadline: When to give up, in nanoseconds of ``MonotonicClock``.
    ///   - late: The error then.
    nonisolated(nonsending) static func perform(
        _ request: [UInt8],
        on lane: HTTPLane,
        of loop: EventLoop,
        deadline: Int64,
        late: TransportError
    ) async throws(TransportError) -> Answer {
        let call = HTTPCall(lane, on: loop)
        return try await LoopBound(call, to: loop).suspend(with: (request, deadline, late), #isolation) {
            (call, arguments, waiter) in
            call.waiter = waiter
            call.lane.user = call
            call.timer = loop.schedule(at: arguments.1) {
                call.timer = nil
                call.finish(.failure(arguments.2))
            }
            call.lane.send(arguments.0)
            call.lane.start()
        } onCancel: { call, _ in
            call.finish(.failure(.cancelled(.handshake)))
        }.get()
    }

    func received(_ event: HTTPResponseReader.Event, on _: HTTPLane) {
        switch event {
        case .head(let head, let status): answer = Answer(head: head, status: status)
        case .body(let bytes):
            guard (answer?.body.count ?? 0) + bytes.count <= Self.largestBody else {
                // The head of a refusal says enough.
                if let answer, answer.status != 201 { return finish(.success(answer)) }
                return finish(
                    .failure(ClientHandshake.failed("the server's answer has more than \(Self.largestBody) bytes"))
                )
            }
            answer?.body += bytes
        case .end: if let answer { finish(.success(answer)) }
        }
    }

    func moved(_: HTTPLane) {}

    func ended(_: HTTPLane, _ error: TransportError) {
        // An answer that does not fit has a head that says enough.
        if let answer, answer.status != 201 { return finish(.success(answer)) }
        var error = error
        if error.phase == .open { error.phase = .handshake }
        finish(.failure(error))
    }

    private func finish(_ result: Result<Answer, TransportError>) {
        guard let waiter = waiter.take() else { return }
        if let timer { loop.cancel(timer: timer) }
        timer = nil
        if case .failure = result { lane.close(abort: true) }
        waiter.resume(returning: result)
    }
}
