import Testing
import TransportAPI

@testable import EmbeddedServers

private let millisecond: Int64 = 1_000_000

@Suite("Parts of a bad path")
struct PathPartsTests {
    @Test("A value out of range becomes the nearest allowed value")
    func bounded() {
        let faults = PathFaults(
            delay: .seconds(-1),
            jitter: .seconds(9999),
            bytesPerSecond: -5,
            loss: 2,
            duplication: .nan
        )
        .bounded
        #expect(faults == PathFaults(jitter: .seconds(3600), bytesPerSecond: 1, loss: 1))
    }

    // MARK: The line

    private func line(_ keepsOrder: Bool, _ faults: PathFaults, spreads: [Double]) -> DelayLine {
        var line = DelayLine(keepsOrder: keepsOrder)
        for (index, spread) in spreads.enumerated() { line.append([UInt8(index)], now: 0, spread: spread, faults) }
        return line
    }

    private func drain(_ line: inout DelayLine) -> [UInt8] {
        var seen: [UInt8] = []
        while let bytes = line.withFirst({ Array($0) }) {
            seen += bytes
            line.consume(bytes.count)
        }
        return seen
    }

    @Test("Jitter reorders datagrams, but not the bytes of a stream")
    func overtaking() {
        let faults = PathFaults(delay: .milliseconds(1), jitter: .milliseconds(10))
        var datagrams = line(false, faults, spreads: [1, 0.5, 0, 0.5])
        #expect(datagrams.nextDue == millisecond)
        #expect(drain(&datagrams) == [2, 1, 3, 0])
        var stream = line(true, faults, spreads: [0.5, 1, 0])
        #expect(stream.nextDue == 6 * millisecond)
        #expect(drain(&stream) == [0, 1, 2])
    }

    @Test("A change of delay also applies to bytes in flight")
    func reschedule() {
        var line = line(true, PathFaults(delay: .seconds(3600)), spreads: [0, 0])
        line.reschedule(PathFaults(delay: .milliseconds(2)))
        #expect(line.nextDue == 2 * millisecond && line.count == 2 && line.byteCount == 2)
        #expect(drain(&line) == [0, 1])
        #expect(line.isEmpty && line.byteCount == 0)
    }

    @Test("A piece that is taken in part stays the first")
    func partly() {
        var line = DelayLine(keepsOrder: true)
        line.append([1, 2, 3], now: 0, spread: 0, .none)
        line.append([4], now: 0, spread: 0, .none)
        line.consume(2)
        line.reschedule(PathFaults(delay: .milliseconds(1)))
        #expect(line.firstCount == 1 && line.byteCount == 2)
        #expect(line.withFirst(upTo: 5) { Array($0) } == [3])
        #expect(drain(&line) == [3, 4])
    }

    @Test("A line limits its bytes and its pieces, and empty pieces count")
    func bounds() {
        var line = DelayLine(keepsOrder: false)
        for _ in 0..<DelayLine.maximumPieces { line.append([], now: 0, spread: 0, .none) }
        #expect(line.room == 0 && !line.hasRoom(for: 0))
        line.consume(0)
        #expect(line.hasRoom(for: DelayLine.maximumBytes) && !line.hasRoom(for: DelayLine.maximumBytes + 1))
    }

    // MARK: The throttle

    @Test("A throttle passes its rate of bytes per second", arguments: [1, 37, 1000, 1_000_000])
    func throttle(rate: Int) {
        var bucket = TokenBucket()
        var now: Int64 = 5
        bucket.set(bytesPerSecond: rate, now: now)
        var passed = 0
        let end = now + 10_000 * millisecond
        while now < end {
            let allowance = bucket.allowance(now: now)
            bucket.spend(allowance)
            passed += allowance
            let next = bucket.nextTime(for: 1 << 20, now: now)
            #expect(next > now)
            now = next
        }
        // The bytes of ten seconds, and those that the bucket held at first.
        let expected = rate * 10
        #expect(passed >= expected * 98 / 100 - 1 && passed <= expected * 102 / 100 + 2)
    }

    @Test("A datagram larger than the bucket passes, and its excess delays later bytes")
    func debt() {
        var bucket = TokenBucket()
        bucket.set(bytesPerSecond: 1000, now: 0)
        #expect(bucket.allowance(now: 0) == 20)
        bucket.spend(1020)
        #expect(bucket.allowance(now: 999 * millisecond) == 0)
        #expect(bucket.nextTime(for: 1500, now: 999 * millisecond) > 1000 * millisecond)
        #expect(bucket.allowance(now: 1001 * millisecond) == 1)
    }

    @Test("Everything passes if there is no rate")
    func unlimited() {
        var bucket = TokenBucket()
        #expect(bucket.allowance(now: 0) == .max)
        bucket.set(bytesPerSecond: 5, now: 0)
        bucket.set(bytesPerSecond: nil, now: 0)
        #expect(bucket.allowance(now: 0) == .max && bucket.nextTime(for: 9, now: 3) == 3)
    }

    // MARK: Fates

    @Test("Losses, duplicates and reorderings occur at their configured rates, and the same seed repeats them")
    func fates() {
        let faults = PathFaults(loss: 0.3, duplication: 0.1, reordering: 0.05)
        func draw(_ seed: UInt64) -> [DatagramFate] {
            var random = RandomSource.seeded(seed)
            return (0..<20_000).map { _ in DatagramFate(faults, &random) }
        }
        let fates = draw(1)
        #expect(fates == draw(1) && fates != draw(2))
        for (share, expected) in [
            (fates.count(where: \.isLost), 6000), (fates.count(where: \.isDuplicated), 2000),
            (fates.count(where: \.isReordered), 1000),
        ] {
            #expect(abs(share - expected) < 200)
        }
    }

    @Test("A change of other faults does not change which datagrams are lost")
    func independent() {
        var (one, other) = (RandomSource.seeded(3), RandomSource.seeded(3))
        for _ in 0..<1000 {
            let plain = DatagramFate(PathFaults(loss: 0.2), &one)
            let rich = DatagramFate(PathFaults(jitter: .seconds(1), loss: 0.2, duplication: 0.9), &other)
            #expect(plain.isLost == rich.isLost)
        }
    }
}
