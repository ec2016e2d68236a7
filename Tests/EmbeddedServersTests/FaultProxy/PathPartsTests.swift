import Primitives
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

    private func draw(spread: Double = 0, reordering: Double = 1) -> PathModel.Draw {
        var random = RandomSource.seeded(1)
        var draw = PathModel.Draw(using: &random)
        (draw.loss, draw.duplication, draw.reordering, draw.spread) = (1, 1, reordering, spread)
        return draw
    }

    private func line(_ path: PathModel.Parameters, spreads: [Double]) -> DelayLine {
        var line = DelayLine(path)
        for (index, spread) in spreads.enumerated() { _ = line.append([UInt8(index)], draw(spread: spread), at: 0) }
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
        var datagrams = line(faults.datagrams, spreads: [1, 0.5, 0, 0.5])
        #expect(datagrams.nextDue == millisecond)
        #expect(drain(&datagrams) == [2, 1, 3, 0])
        var stream = line(faults.stream, spreads: [0.5, 1, 0])
        #expect(stream.nextDue == 6 * millisecond)
        #expect(drain(&stream) == [0, 1, 2])
    }

    @Test("A reordered datagram arrives behind the next one, or after 20 ms if there is none")
    func reordering() {
        let faults = PathFaults(delay: .milliseconds(1), reordering: 0.5)
        var line = DelayLine(faults.datagrams)
        for (number, time) in [0, 5, 6, 90].enumerated() {
            _ = line.append([UInt8(number)], draw(reordering: 0), at: Int64(time) * millisecond)
        }
        // The second and the last one let nothing pass, because another one still waits.
        var seen: [Int64] = []
        var order: [UInt8] = []
        while let due = line.nextDue {
            seen.append(due / millisecond)
            order += line.withFirst { Array($0) } ?? []
            line.consume(1)
        }
        #expect(order == [1, 0, 2, 3] && seen == [6, 6, 27, 91])
        #expect(line.byteCount == 0)
    }

    @Test("A change of delay also applies to bytes in flight")
    func reschedule() {
        var line = line(PathFaults(delay: .seconds(3600)).stream, spreads: [0, 0])
        line.change(to: PathFaults(delay: .milliseconds(2)).stream, at: millisecond)
        #expect(line.nextDue == 2 * millisecond && line.count == 2 && line.byteCount == 2)
        #expect(drain(&line) == [0, 1])
        #expect(line.isEmpty && line.byteCount == 0)
    }

    @Test("A piece that is taken in part stays the first")
    func partly() {
        var line = DelayLine(PathFaults.none.stream)
        _ = line.append([1, 2, 3], draw(), at: 0)
        _ = line.append([4], draw(), at: 0)
        line.consume(2)
        line.change(to: PathFaults(delay: .milliseconds(1)).stream, at: 0)
        #expect(line.firstCount == 1 && line.byteCount == 2)
        #expect(line.withFirst(upTo: 5) { Array($0) } == [3])
        #expect(drain(&line) == [3, 4])
    }

    @Test("A line limits its bytes and its pieces, and empty pieces count")
    func bounds() {
        var line = DelayLine(PathFaults.none.datagrams)
        for _ in 0..<DelayLine.maximumPieces { _ = line.append([], draw(), at: 0) }
        #expect(line.room == 0 && !line.hasRoom(for: 0))
        #expect(line.append([], draw(), at: 0) == .overflow)
        line.consume(0)
        #expect(line.hasRoom(for: DelayLine.maximumBytes) && !line.hasRoom(for: DelayLine.maximumBytes + 1))
    }

    // MARK: The rate of a stream

    @Test("A large piece of a stream passes in parts, at the rate", arguments: [1, 37, 1000, 1_000_000])
    func throttle(rate: Int) {
        var line = DelayLine(PathFaults(bytesPerSecond: rate).stream)
        let size = min(rate * 10, DelayLine.maximumBytes)
        #expect(line.append([UInt8](repeating: 1, count: size), draw(), at: 5) != .overflow)
        var (now, largest, steps) = (Int64(5), 0, 0)
        #expect(line.arrived(at: now) == 0)
        while let next = line.nextPart(after: now) {
            #expect(next > now)
            now = next
            let arrived = line.arrived(at: now)
            largest = max(largest, arrived)
            line.consume(arrived)
            steps += 1
        }
        #expect(now == 5 + Int64(size) * 1_000_000_000 / Int64(rate))
        #expect(largest <= max(2, rate / 40) && steps <= 550)
    }

    @Test("A change of the rate applies to the rest of a piece")
    func faster() {
        var line = DelayLine(PathFaults(bytesPerSecond: 1000).stream)
        _ = line.append([UInt8](repeating: 1, count: 1000), draw(), at: 0)
        line.consume(line.arrived(at: 500 * millisecond))
        #expect(line.byteCount == 500)
        line.change(to: PathFaults(bytesPerSecond: 5000).stream, at: 500 * millisecond)
        #expect(line.arrived(at: 500 * millisecond) == 0 && line.nextDue == 600 * millisecond)
        line.change(to: PathFaults.none.stream, at: 510 * millisecond)
        #expect(line.arrived(at: 510 * millisecond) == 500)
    }
}
