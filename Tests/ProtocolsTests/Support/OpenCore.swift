import TestSupport

@testable import Protocols

/// A core whose handshake is done and whose output is empty.
func openCore(
    _ role: CoreRole,
    seed: UInt64 = 1,
    _ change: (inout WebSocketConfiguration) -> Void = { _ in }
) throws -> WebSocketHarness {
    var configuration = WebSocketConfiguration()
    change(&configuration)
    var harness = WebSocketHarness(try WebSocketCore(role, configuration), seed: seed)
    harness.start()
    harness.feed(role == .server ? request() : response(key: harness.core.key))
    _ = harness.takeOutput()
    return harness
}
