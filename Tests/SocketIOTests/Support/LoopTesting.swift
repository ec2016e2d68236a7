@testable import SocketIO

/// Loops that are created once and shared, because a loop exists as long as the process.
enum Loops {
    static let automatic = Result { () throws(SystemError) in try EventLoop(poller: .automatic) }
    static let portable = Result { () throws(SystemError) in try EventLoop(poller: .portable) }

    static func of(_ kind: PollerKind) throws -> EventLoop {
        switch kind {
        case .automatic: try automatic.get()
        case .portable: try portable.get()
        }
    }
}

/// Runs `body` on `loop` and returns its result.
func on<Value: Sendable>(_ loop: EventLoop, _ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        loop.execute { continuation.resume(with: Result { try body() }) }
    }
}

/// Records the readiness events of a descriptor and passes each to `onReady`. It is used only on its loop.
final class Recorder: PollHandler {
    private(set) var edges: [Readiness] = []
    var onReady: ((Readiness) -> Void)?

    func ready(_ readiness: Readiness) {
        edges.append(readiness)
        onReady?(readiness)
    }
}

/// Receives the next datagrams. Over loopback they arrive soon, but not at once on a busy machine.
func next(of socket: DatagramSocket, tries: Int = 1_000_000) -> IOResult {
    var result = IOResult.wouldBlock
    for _ in 0..<tries where result == .wouldBlock {
        result = socket.receive(into: DatagramBatch(largest: 100))
        if result == .wouldBlock { sched_yield() }
    }
    return result
}

/// The error of datagrams to a port without a socket. The kernel limits its answers to such datagrams per second (icmp(7)), so
/// a single datagram may stay unanswered.
func refusal(of socket: DatagramSocket) -> Int32? {
    for _ in 0..<1000 {
        if case .failed(let error) = [UInt8(1)].withUnsafeBytes({ socket.send($0) }) { return error.number }
        if case .failed(let error) = next(of: socket, tries: 1000) { return error.number }
    }
    return nil
}

let second: Int64 = 1_000_000_000
