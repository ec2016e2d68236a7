import SocketIO
import Testing
import TransportAPI

@testable import Transports

@Suite("An attempt whose task is cancelled")
struct CancelledAttemptTests {
    /// These protocols need no answer, so an attempt can be complete in one turn of the loop.
    @Test(
        "An attempt of a task that was cancelled before never returns a connection",
        arguments: ["tcp://127.0.0.1:0?framing=u32", "tcp://127.0.0.1:0", "udp://127.0.0.1:0?plain=on"]
    )
    func before(_ url: String) async throws {
        let listener = try await TransportRegistry.standard.listen(url)
        let accepting = Task {
            while let connection = try await listener.accept() { await connection.close() }
        }
        var address = try Endpoint(url)
        address.port = listener.endpoint.port
        for preference in [nil, EventLoop.shared] as [EventLoop?] {
            for _ in 0..<100 {
                let task = Task { [address] in
                    withUnsafeCurrentTask { $0?.cancel() }
                    return await withTaskExecutorPreference(preference) { () -> TransportError.Code? in
                        do throws(TransportError) {
                            let connection = try await TransportRegistry.standard.connect(address)
                            await connection.close()
                            return nil
                        } catch {
                            return error.code
                        }
                    }
                }
                #expect(await task.value == .cancelled)
            }
        }
        await listener.close()
        try await accepting.value
    }
}
