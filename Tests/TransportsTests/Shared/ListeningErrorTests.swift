import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("Errors of listening", .timeLimit(.minutes(5)), .ownThread)
struct ListeningErrorTests {
    @Test(
        "The error for a port in use names the endpoint and says what to do",
        arguments: ["tcp", "ws", "mqtt", "udp"]
    )
    func portInUse(scheme: String) async throws {
        let registry = TransportRegistry.standard
        let first = try await registry.listen("\(scheme)://127.0.0.1:0")
        let url = "\(scheme)://127.0.0.1:\(first.endpoint.port ?? 0)"
        let error = await #expect(throws: TransportError.self) { _ = try await registry.listen(url) }
        #expect(error?.code == .addressInUse && error?.phase == .listen)
        let advice = "another process uses the port; choose another one, or port 0"
        #expect(error?.reason.hasSuffix(": \(advice)") == true, "\(String(describing: error))")
        #expect(error?.reason.hasPrefix("cannot listen at \(url)") == true, "\(String(describing: error))")
        await first.close()
    }
}
