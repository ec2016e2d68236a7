import Testing
import TransportAPI

@testable import Transfers

@Suite("The messages of a transfer") struct TransferFrameTests {
    private static let id = TransferID(high: 1, low: 2)
    private static let frames: [TransferFrame] = [
        .offer(id, size: 7, name: "é"), .offer(id, size: nil, name: ""), .asked(id),
        .accept(id, offset: 1 << 62, window: .max), .chunk(id, offset: 3, [1, 2]), .received(id, offset: 5),
        .end(id, size: 7, digest: [UInt8](repeating: 9, count: 32)), .done(id),
        .refused(id, TransferRefusal(.tooLarge, "large")),
    ]

    @Test("Each one is read back", arguments: frames)
    func readBack(frame: TransferFrame) {
        #expect(TransferFrame(frame.payload) == frame && frame.id == Self.id)
    }

    @Test("Anything else is a message of the app", arguments: frames)
    func others(frame: TransferFrame) {
        let bytes = frame.payload.bytes
        #expect(TransferFrame(Payload(bytes, kind: .text)) == nil)
        #expect(TransferFrame(Payload(Array(bytes.prefix(17)))) == nil)
        #expect(TransferFrame(Payload([0x1e] + bytes.dropFirst())) == nil)
        #expect(TransferFrame(Payload([0x1f, 9] + bytes.dropFirst(2))) == nil)
        switch frame {
        case .refused, .chunk, .offer: break
        default: #expect(TransferFrame(Payload(bytes + [0])) == nil)
        }
    }

    @Test("Offsets beyond 2^62, names that are no text, and chunks that are too large are refused")
    func limits() {
        #expect(TransferFrame(TransferFrame.received(Self.id, offset: 1 << 62 | 1).payload) == nil)
        #expect(TransferFrame(TransferFrame.offer(Self.id, size: 1 << 63, name: "").payload) == nil)
        #expect(TransferFrame(Payload(TransferFrame.offer(Self.id, size: 1, name: "").payload.bytes + [0xff])) == nil)
        // A reason and a name end with a whole character.
        let long = TransferRefusal(.refused, "x" + String(repeating: "é", count: 600))
        #expect(long.reason.utf8.count == 1023)
        #expect(TransferFrame(TransferFrame.refused(Self.id, long).payload) == .refused(Self.id, long))
        let most = [UInt8](repeating: 1, count: TransferFrame.maximumChunk)
        #expect(TransferFrame(TransferFrame.chunk(Self.id, offset: 0, most).payload) != nil)
        #expect(TransferFrame(TransferFrame.chunk(Self.id, offset: 0, most + [1]).payload) == nil)
        #expect(TransferFrame(TransferFrame.chunk(Self.id, offset: 0, []).payload) == nil)
    }
}
