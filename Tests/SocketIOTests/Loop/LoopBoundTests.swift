import Primitives
import Testing

@testable import SocketIO

@Suite("Loop-bound objects")
struct LoopBoundTests {
    /// A loop-bound object. A timer keeps it alive, and no argument of the calls below refers to it.
    private final class Tally {
        var count = 0
    }

    /// A debug build passes with any implementation. An optimized build did not load `count` again when `LoopBound` still
    /// accepted values of any type (`swift test -c release -Xswiftc -enable-testing --filter LoopBoundTests`).
    @Test("A caller that holds the object sees a change that a timer made while the caller was suspended")
    func changesAcrossAwait() async throws {
        let loop = try EventLoop(name: "confined")
        let tally = LoopBound(Tally(), to: loop)
        let seen = await Task(executorPreference: loop) {
            let held = tally.value
            var seen = [held.count]
            for _ in 0..<3 {
                _ = loop.schedule(at: loop.now) { tally.value.count += 1 }
                await withUnsafeContinuation { continuation in
                    _ = loop.schedule(at: loop.now) { continuation.resume() }
                }
                seen.append(held.count)
            }
            return seen
        }.value
        #expect(seen == [0, 1, 2, 3])
    }

    @Test("A caller on the loop gets the object, and a caller elsewhere does not")
    func here() async throws {
        let loop = try EventLoop(name: "here")
        let tally = LoopBound(Tally(), to: loop)
        #expect(tally.here == nil)
        #expect(try await on(loop) { tally.here != nil })
    }
}
