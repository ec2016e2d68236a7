import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("The inbox of a connection")
struct InboxTests {
    private static func inbox(messages: Int = 1024, bytes: Int = 4 << 20) -> Inbox {
        var limits = ConnectionLimits()
        (limits.inboxMessages, limits.inboxBytes) = (messages, bytes)
        return Inbox(limits)
    }

    @Test("An inbox returns messages in order and counts their memory while it grows and shrinks")
    func order() {
        var inbox = Self.inbox()
        var (appended, taken) = (0, 0)
        var sizes: [Int] = []
        for (more, fewer) in [(3, 2), (5, 1), (9, 14), (1, 1), (200, 150), (70, 120)] {
            for _ in 0..<more {
                inbox.append(Payload([UInt8](repeating: UInt8(appended & 0xff), count: appended % 7)))
                sizes.append(appended % 7)
                appended += 1
            }
            for _ in 0..<fewer {
                let payload = inbox.popFirst()
                #expect(payload == Payload([UInt8](repeating: UInt8(taken & 0xff), count: taken % 7)))
                taken += 1
            }
            let (count, held) = (inbox.count, inbox.bufferedBytes)
            #expect(count == appended - taken)
            #expect(held == sizes[taken...].reduce(0, +) + count * Payload.bookkeeping)
        }
        let (last, count, held) = (inbox.popFirst(), inbox.count, inbox.bufferedBytes)
        #expect(last == nil && count == 0 && held == 0)
    }

    @Test("An inbox is full at its limit of messages or at its limit of bytes", arguments: [(4, 1000), (1000, 4)])
    func limits(messages: Int, bytes: Int) {
        var inbox = Self.inbox(messages: messages, bytes: bytes)
        for number in 0..<4 {
            let hasRoom = inbox.hasRoom
            #expect(hasRoom, "message \(number)")
            inbox.append(Payload([1]))
        }
        let (isFull, hasExcessRoom, isHalfEmpty) = (!inbox.hasRoom, inbox.hasExcessRoom, inbox.isHalfEmpty)
        #expect(isFull && hasExcessRoom && !isHalfEmpty)
        for _ in 0..<2 { _ = inbox.popFirst() }
        let isHalfEmptyThen = inbox.isHalfEmpty
        #expect(isHalfEmptyThen)
    }

    @Test("An empty inbox takes one message of any size")
    func large() {
        var inbox = Self.inbox(bytes: 10)
        let hasRoom = inbox.hasRoom
        inbox.append(Payload([UInt8](repeating: 1, count: 5000)))
        let hasRoomThen = inbox.hasRoom
        #expect(hasRoom && !hasRoomThen)
    }
}
