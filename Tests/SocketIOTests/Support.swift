@testable import SocketIO

/// Loops are made once and shared: a loop lives as long as the process.
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

/// Runs `body` on `loop` and gives what it gives.
func on<Value: Sendable>(_ loop: EventLoop, _ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        loop.execute { continuation.resume(with: Result { try body() }) }
    }
}

/// Collects what a descriptor's owner is told, and answers those who wait for it. Lives on its loop.
final class Recorder: PollHandler {
    private(set) var edges: [Readiness] = []
    var onReady: ((Readiness) -> Void)?

    func ready(_ readiness: Readiness) {
        edges.append(readiness)
        onReady?(readiness)
    }
}

let second: Int64 = 1_000_000_000
