import SocketIO
import Testing

/// Runs each test of a suite on its own thread, which is an event loop. The global executor has one thread per core. A
/// test that changes threads often would wait there each time for tests that compute for a long time.
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    /// The trait applies to each test and not to the suite as a whole.
    public var isRecursive: Bool { true }

    /// Returns the trait itself for a test, and nothing for a suite.
    public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
        testCase == nil ? nil : self
    }

    /// Runs one case of a test on a loop that no other test uses meanwhile.
    public func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        let loop = try Self.takeLoop()
        defer { Self.idle.withLock { $0.append(loop) } }
        try await withTaskExecutorPreference(loop) { try await function() }
    }

    /// Loops live as long as the process. There are as many as tests ran at the same time.
    private static let idle = Locked<[EventLoop]>([])

    private static func takeLoop() throws -> EventLoop {
        if let loop = idle.withLock({ $0.popLast() }) { return loop }
        return try EventLoop(name: "im-test")
    }
}

extension Trait where Self == OwnThread {
    /// Runs each test on its own thread.
    public static var ownThread: Self { OwnThread() }
}
