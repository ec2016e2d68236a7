import TestSupport
import Testing

@testable import OutboxStores

@Suite("Syncs in the background", .ownThread, .timeLimit(.minutes(5))) struct BackgroundSyncTests {
    @Test("Each request is followed by a call, until it is stopped")
    func calls() async throws {
        let (calls, continuation) = AsyncStream.makeStream(of: Void.self)
        let background = try BackgroundSync(every: .milliseconds(2)) { continuation.yield() }
        var iterator = calls.makeAsyncIterator()
        for _ in 0..<5 {
            background.request()
            background.request()
            await iterator.next()
        }
        background.stop()
        background.request()
        continuation.finish()
        #expect(await iterator.next() == nil)
    }

    @Test("The thread ends with its owner, also while it waits")
    func ends() async throws {
        final class Witness: Sendable {
            let continuation: AsyncStream<Void>.Continuation
            init(_ continuation: AsyncStream<Void>.Continuation) { self.continuation = continuation }
            deinit { continuation.finish() }
        }
        for isRequested in [false, true] {
            let (ended, continuation) = AsyncStream.makeStream(of: Void.self)
            func start() throws {
                let witness = Witness(continuation)
                let background = try BackgroundSync(every: .seconds(3600)) { _ = witness }
                if isRequested { background.request() }
            }
            try start()
            for await _ in ended {}
        }
    }
}
