import Codecs
import Testing
import TransportAPI

@testable import CommandSupport
@testable import Measuring
@testable import Workloads

@Suite("imbench fanout: its message and its accounts") struct FanoutCountsTests {
    @Test(
        "The number of a message is read back, and another message has none",
        arguments: [WireFormat.json, .protobuf]
    )
    func message(codec: WireFormat) throws {
        let message = try FanoutMessage(size: 100, codec: codec, seed: 3)
        for number in [0, 7, 123_456_789, 999_999_999_999_999] as [UInt64] {
            let payload = message.payload(number)
            #expect(payload.bytes.count == message.count)
            #expect(message.number(of: payload) == number)
            let decoded = try codec.codec().decode(ChatMessage.self, from: Array(payload.bytes))
            #expect(decoded.id == MessageNumber.text(number))
        }
        #expect(message.number(of: Payload(text: "you have missed 3 messages")) == nil)
        #expect(message.number(of: Payload([UInt8](repeating: 0x7a, count: message.count))) == nil)
    }

    @Test("The times are those of the first subscriber, half of them, and the last one")
    func times() {
        var counts = FanoutCounts(subscribers: 4)
        let number = counts.send(intended: 1000)
        #expect(!counts.isComplete(number) && counts.oldestIncomplete?.missing == 4)
        for (subscriber, time) in [(2, 1100), (0, 1200), (3, 1300), (1, 1400)] as [(Int, Int64)] {
            let isNew = counts.take(number, subscriber, at: time)
            #expect(isNew)
        }
        #expect(counts.times.first.minimum == 100 && counts.times.first.count == 1)
        #expect(counts.times.half.minimum == 200 && counts.times.last.minimum == 400)
        #expect(counts.isComplete(number) && counts.incomplete == 0 && counts.oldestIncomplete == nil)
        #expect(counts.accounts == DeliveryCounts(sent: 4, acked: 4))
    }

    @Test("Repeated, strange and reordered messages are counted apart")
    func others() {
        var counts = FanoutCounts(subscribers: 1)
        let (first, second) = (counts.send(intended: 0), counts.send(intended: 0))
        let taken = [second, first, first, nil, 99].map { counts.take($0, 0, at: 1) }
        #expect(taken == [true, true, false, false, false])
        let accounts = counts.accounts
        #expect(accounts == DeliveryCounts(sent: 2, acked: 2, duplicated: 1, reordered: 1, unexpected: 2))
    }

    @Test("Missing deliveries count as lost until they arrive, and give no times then")
    func lost() {
        var counts = FanoutCounts(subscribers: 2)
        let number = counts.send(intended: 0)
        _ = counts.take(number, 0, at: 10)
        counts.loseRest()
        #expect(counts.isComplete(number) && counts.incomplete == 0)
        #expect(counts.accounts == DeliveryCounts(sent: 2, acked: 1, lost: 1))
        let isNew = counts.take(number, 1, at: 20)
        #expect(isNew)
        #expect(counts.accounts == DeliveryCounts(sent: 2, acked: 2) && counts.times.last.count == 0)
    }

    @Test("A message that leaves the window counts as lost for the subscribers that lack it")
    func window() {
        var counts = FanoutCounts(subscribers: 2)
        for number in 0..<UInt64(FanoutCounts.window) {
            #expect(!counts.isFull)
            let (sent, isNew) = (counts.send(intended: 0), counts.take(number, 0, at: 1))
            #expect(sent == number && isNew)
        }
        #expect(counts.isFull && counts.incomplete == FanoutCounts.window)
        #expect(counts.oldestIncomplete?.number == 0)
        _ = counts.send(intended: 0)
        #expect(counts.incomplete == FanoutCounts.window && counts.oldestIncomplete?.number == 1)
        let accounts = counts.accounts
        #expect(accounts.closes && accounts.lost == 1 && accounts.sent == 2 * (FanoutCounts.window + 1))
    }
}
