import SocketIO
import Testing

/// Runs each test of a suite on a thread of its own, an event loop. On the global executor, which has as many threads as the
/// machine has cores, a test that changes threads often would wait each time for those that compute for long.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// Each test, not the suite as a whole.
    public var isRecursive: Bool { true }

    /// Itself for each test, nothing for a suite.
    public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
        testCase == nil ? nil : self
    }

    /// Runs one case of a test on a loop that no other one uses meanwhile.
    public func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        let loop = try Self.takeLoop()
        defer { Self.idle.withLock { $0.append(loop) } }
        try await withTaskExecutorPreference(loop) { try await function() }
    }

    /// Loops live as long as the process; there are as many as tests ran at a time.
    private static let idle = Locked<[EventLoop]>([])

    private static func takeLoop() throws -> EventLoop {
        if let loop = idle.withLock({ $0.popLast() }) { return loop }
        return try EventLoop(name: "im-test")
    }
}

extension Trait where Self == OwnThread {
    /// On a thread of its own.
    public static var ownThread: Self { OwnThread() }
}
