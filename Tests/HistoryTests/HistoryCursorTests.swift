import History
import Testing
import TransportAPI

@Suite("The place of a device in a room") struct HistoryCursorTests {
    private func entry(_ number: UInt64) -> HistoryEntry {
        HistoryEntry(number: number, id: "\(number)", sender: "ann", bytes: [UInt8(truncatingIfNeeded: number)])
    }

    private func page(_ numbers: ClosedRange<UInt64>, first: UInt64 = 1, last: UInt64) -> HistoryPage {
        HistoryPage(entries: numbers.map(entry), first: first, last: last)
    }

    @Test("Entries in order are shown at once, and each once")
    func order() {
        var cursor = HistoryCursor(after: 2)
        #expect(cursor.receive(entry(3)).entries == [entry(3)])
        #expect(cursor.receive(entry(3)).entries == [])
        #expect(cursor.receive(entry(1)) == HistoryCursor.Step())
        #expect(cursor.last == 3)
    }

    @Test("A gap is asked for once, and what came early follows the page")
    func gap() {
        var cursor = HistoryCursor()
        #expect(cursor.receive(entry(4)) == HistoryCursor.Step(request: 0))
        #expect(cursor.receive(entry(5)) == HistoryCursor.Step())
        let step = cursor.receive(page(1...3, last: 5))
        #expect(step.entries.map(\.number) == [1, 2, 3, 4, 5] && step.request == nil)
    }

    @Test("Pages go on until the last entry")
    func pages() {
        var cursor = HistoryCursor(after: 10)
        #expect(cursor.connected().request == 10)
        #expect(cursor.receive(page(11...12, last: 14)).request == 12)
        let step = cursor.receive(page(13...14, last: 14))
        #expect(step.entries.map(\.number) == [13, 14] && step.request == nil)
    }

    @Test("Dropped entries are reported, and a page that is older than what arrived is no other history")
    func missing() {
        var cursor = HistoryCursor(after: 2)
        _ = cursor.connected()
        #expect(cursor.receive(entry(3)).entries == [entry(3)])
        #expect(cursor.receive(page(1...2, last: 2)) == HistoryCursor.Step())
        #expect(cursor.receive(entry(9)).request == 3)
        let step = cursor.receive(page(7...8, first: 7, last: 9))
        #expect(step.missing == 4...6 && step.entries.map(\.number) == [7, 8, 9])
    }

    @Test("Another history begins anew")
    func restart() {
        var cursor = HistoryCursor(after: 50)
        _ = cursor.connected()
        let step = cursor.receive(page(1...2, last: 2))
        #expect(step.hasRestarted && step.request == 0 && cursor.last == 0)
        #expect(cursor.receive(page(1...2, last: 2)).entries.map(\.number) == [1, 2])
    }

    @Test(
        "A server that lies about numbers does no harm",
        arguments: [.max, .max - 1, 1 << 63, (1 << 63) - 1] as [UInt64]
    )
    func lies(number: UInt64) {
        var cursor = HistoryCursor(after: number)
        for last in [0, 1, number] {
            _ = cursor.connected()
            _ = cursor.receive(entry(number))
            _ = cursor.receive(HistoryPage(entries: [entry(number), entry(0)], first: number, last: last))
            _ = cursor.receive(HistoryPage(entries: [entry(1)], first: 1, last: number))
        }
        var another = HistoryCursor()
        _ = another.receive(HistoryPage(entries: [entry(number)], first: number, last: number))
        #expect(another.receive(entry(0)) == HistoryCursor.Step())
    }

    @Test("Whatever is lost, repeated or late, each entry is shown once and in order")
    func anything() {
        for seed in 0..<200 as Range<UInt64> {
            var random = RandomSource.seeded(seed)
            var cursor = HistoryCursor(after: 0, HistoryPageLimit(count: 5, bytes: 1000))
            var (last, first) = (UInt64(0), UInt64(1))
            var shown: [UInt64] = []
            var asked: UInt64?
            func take(_ step: HistoryCursor.Step) {
                if let missing = step.missing { shown += missing.map { $0 } }
                shown += step.entries.map(\.number)
                if let request = step.request { asked = request }
            }
            for _ in 0..<300 {
                switch random.next() % 6 {
                case 0, 1:
                    last += 1
                    if random.next() % 3 > 0 { take(cursor.receive(entry(last))) }
                case 2: if last > 0 { take(cursor.receive(entry(1 + random.next() % last))) }
                case 3:
                    // The connection is another one, and an answer that was on its way is lost.
                    take(cursor.connected())
                case 4: first = max(first, last > 10 ? last - 10 : 1)
                default:
                    guard let after = asked else { continue }
                    asked = nil
                    let begin = max(after + 1, first)
                    let end = min(last, begin + random.next() % 4)
                    let entries = begin <= end ? (begin...end).map(entry) : []
                    take(cursor.receive(HistoryPage(entries: entries, first: first, last: last)))
                }
            }
            take(cursor.connected())
            while let after = asked {
                asked = nil
                let begin = max(after + 1, first)
                let entries = begin <= last ? (begin...last).map(entry) : []
                take(cursor.receive(HistoryPage(entries: entries, first: first, last: last)))
            }
            #expect(shown == Array(1...max(1, last)), "seed \(seed)")
        }
    }
}
