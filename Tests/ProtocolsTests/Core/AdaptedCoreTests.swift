import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Cores of other packages")
struct AdaptedCoreTests {
    @Test("An adapted core writes and reads what its base does")
    func bytes() throws {
        var harness = CoreHarness(AdaptedCore(try FramedTCPCore(TCPConfiguration())))
        harness.start()
        harness.drain()
        #expect(harness.isOpen && harness.core.capabilities == Capabilities(maximumMessageSize: 16 << 20))
        #expect(try harness.send(Payload(text: "hi")) == .written)
        try harness.core.ping(&harness.context)
        harness.feed([0, 0, 0, 2, 0x68, 0x69])
        #expect(harness.messages.map(\.bytes) == [[0x68, 0x69]])
        harness.core.close(CloseReason(.user, text: "bye"), &harness.context)
        #expect(harness.takeOutput() == FramedTCPCoreTests.example)
    }

    @Test("An adapted core has the abilities that its base declares, and the defaults for the rest")
    func abilities() throws {
        let server = try MQTTServerCore(MQTTServerConfiguration())
        let adapted = AdaptedCore(server)
        #expect(adapted.acknowledges == server.acknowledges && adapted.confirmsReceipt == server.confirmsReceipt)
        #expect(adapted.acknowledges(Payload([1])) == server.acknowledges(Payload([1])))
        #expect(server.expected == .mqtt && adapted.expected == nil && adapted.isAccepted)
    }

    @Test("Only a core of another package is adapted")
    func packaged() throws {
        #expect(try FramedTCPCore(TCPConfiguration()).packaged is FramedTCPCore)
        #expect(ForeignCore().packaged is AdaptedCore<ForeignCore>)
    }
}

/// A core as another package declares it. It is never started.
private struct ForeignCore: ProtocolCore {
    var capabilities: Capabilities { Capabilities(maximumMessageSize: 1) }
    var deadline: Instant? { nil }

    mutating func start(_: inout CoreContext) {}
    mutating func next(_: inout ByteBuffer, _: inout CoreContext) throws(TransportError) -> CoreEvent? { nil }
    mutating func inputEnded(_: inout CoreContext) throws(TransportError) -> CoreEvent { .closed(CloseReason(.peer)) }
    mutating func deadlineReached(_: inout CoreContext) throws(TransportError) {}
    mutating func send(_: Payload, id _: UInt64, _: inout CoreContext) throws(TransportError) -> SendStatus { .written }
    mutating func ping(_: inout CoreContext) throws(TransportError) -> UInt64 { 0 }
    mutating func close(_: CloseReason, _: inout CoreContext) {}
}
