import Testing

@testable import SocketIO

@Suite("The limit of records without data")
struct EmptyRecordLimitTests {
    @Test("The 33rd record in a row is refused, in however many reads they come")
    func inARow() {
        var limit = EmptyRecordLimit()
        for _ in 0..<EmptyRecordLimit.mostInARow {
            limit.beginRead()
            #expect(limit.foundNone(hasData: false) == .next)
        }
        limit.beginRead()
        #expect(limit.foundNone(hasData: false) == .refuse)
    }

    @Test("Data sets the count to zero")
    func data() {
        var limit = EmptyRecordLimit()
        for _ in 0..<100 {
            limit.beginRead()
            for _ in 0..<EmptyRecordLimit.mostInARow { #expect(limit.foundNone(hasData: false) == .next) }
            limit.foundData()
        }
    }

    @Test("A read that has found data ends after 16 records without data")
    func inARead() {
        var limit = EmptyRecordLimit()
        limit.beginRead()
        for _ in 1..<EmptyRecordLimit.mostInARead { #expect(limit.foundNone(hasData: true) == .next) }
        #expect(limit.foundNone(hasData: true) == .pause)
        limit.beginRead()
        #expect(limit.foundNone(hasData: true) == .next)
    }
}
