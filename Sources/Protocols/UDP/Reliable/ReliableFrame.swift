import TransportAPI

/// The frames in packets of the reliable mode, one after the other (Docs/reference/wire-formats.md).
enum ReliableFrame {
    /// The kind of a frame, which is its first byte.
    enum Kind: UInt8 {
        /// A message in one piece: message number, size, bytes.
        case whole = 1
        /// A part of a message: message number, size of the message, offset, size, bytes.
        case fragment
        /// The packets that have arrived: credit, runs of packets.
        case acknowledgement
        /// An empty frame that requires an acknowledgement.
        case probe
    }

    static let wholeHeader = 11
    static let fragmentHeader = 19
    /// The size with one run. Each further run has ``runSize`` bytes.
    static let acknowledgementSize = 26
    static let runSize = 8

    static func append(_ piece: ReliablePieces.Piece, of pieces: borrowing ReliablePieces, to output: inout ByteBuffer)
    {
        output.append(piece.isWhole ? Kind.whole.rawValue : Kind.fragment.rawValue)
        output.append(integer: piece.number)
        if !piece.isWhole {
            output.append(integer: UInt32(truncatingIfNeeded: piece.total))
            output.append(integer: UInt32(truncatingIfNeeded: piece.offset))
        }
        output.append(integer: UInt16(truncatingIfNeeded: piece.count))
        pieces.withBytes(of: piece) { output.append(contentsOf: $0) }
    }

    /// Appends an acknowledgement of the highest of `runs`, as many as fit into `room`. Returns the bytes that it
    /// takes.
    static func append(
        acknowledgementOf runs: ArraySlice<ClosedRange<UInt64>>,
        delay: Duration,
        credit: UInt64,
        room: Int,
        to output: inout ByteBuffer
    ) -> Int {
        guard let last = runs.last, room >= acknowledgementSize else { return 0 }
        let length = last.upperBound - last.lowerBound
        let more = length < UInt32.max ? min(runs.count - 1, (room - acknowledgementSize) / runSize) : 0
        output.append(Kind.acknowledgement.rawValue)
        output.append(integer: credit)
        output.append(integer: last.upperBound)
        output.append(integer: UInt32(clamping: delay.wholeNanoseconds / 1000))
        output.append(UInt8(truncatingIfNeeded: more))
        output.append(integer: UInt32(clamping: length))
        var lowest = last.lowerBound
        for run in runs.dropLast().suffix(more).reversed() {
            output.append(integer: UInt32(clamping: lowest - run.upperBound))
            output.append(integer: UInt32(clamping: run.upperBound - run.lowerBound))
            lowest = run.lowerBound
        }
        return acknowledgementSize + more * runSize
    }
}

/// An acknowledgement that was read.
struct Acknowledgement: Sendable, Hashable {
    var credit: UInt64
    var delay: Duration
    /// The runs of packets that have arrived, descending; at least one.
    var runs: [ClosedRange<UInt64>]

    var largest: UInt64 { runs.first?.upperBound ?? 0 }

    func contains(_ number: UInt64) -> Bool {
        var (low, high) = (0, runs.count)
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].lowerBound > number { low = middle + 1 } else { high = middle }
        }
        return low < runs.count && runs[low].contains(number)
    }

    /// Reads the content after the kind at `offset`, and moves `offset` to its end. Returns `nil` if it is malformed.
    init?(_ datagram: borrowing ByteBuffer, at offset: inout Int) {
        guard let credit = datagram.integer(at: offset, as: UInt64.self),
            let largest = datagram.integer(at: offset + 8, as: UInt64.self),
            let delay = datagram.integer(at: offset + 16, as: UInt32.self),
            let more = datagram.byte(at: offset + 20), more < ReceivedPackets.maximumRanges,
            let length = datagram.integer(at: offset + 21, as: UInt32.self), UInt64(length) <= largest
        else { return nil }
        self.credit = credit
        self.delay = .microseconds(Int64(delay))
        runs = [largest - UInt64(length)...largest]
        offset += 25
        var lowest = largest - UInt64(length)
        for _ in 0..<more {
            guard let distance = datagram.integer(at: offset, as: UInt32.self), distance >= 2,
                UInt64(distance) <= lowest,
                let length = datagram.integer(at: offset + 4, as: UInt32.self),
                UInt64(length) <= lowest - UInt64(distance)
            else { return nil }
            let upper = lowest - UInt64(distance)
            lowest = upper - UInt64(length)
            runs.append(lowest...upper)
            offset += 8
        }
    }
}
