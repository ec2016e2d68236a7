import Protocols
import SocketIO
import TransportAPI

extension ConnectionDriver {
    /// The current statistics.
    var currentStatistics: ConnectionStatistics {
        var current = statistics
        current.bytesSent = channel.bytesSent
        current.tlsBytesSent = channel.tlsBytesSent
        current.bytesReceived = channel.bytesReceived
        current.controlFrames = context.counters.controlFrames
        current.unexpectedAcknowledgements = context.counters.unexpectedAcknowledgements
        current.duplicates = context.counters.duplicates
        current.reordered = context.counters.reordered
        if phase != .closed { current.add(channel.segmentCounts) }
        return current
    }

    package func readSignsOfLife() -> SignsOfLife {
        readBeforeDeadline()
        let received = channel.bytesReceived
        var signs = SignsOfLife(
            bytesReceived: received - min(received, channel.foreignBytes + context.counters.repeatedBytes)
        )
        if !isDatagram, phase != .closed {
            let waiting = waiting.blocked.reduce(0) { $0 + $1.payload.bytes.count }
            signs.bytesTaken = channel.bytesAcknowledged
            signs.bytesLeft = UInt64(waiting + context.output.count + channel.unacknowledgedBytes)
        }
        return signs
    }
}

extension ConnectionStatistics {
    mutating func add(_ counts: SegmentCounts?) {
        segmentsSent = counts?.sent
        segmentsReceived = counts?.received
        headerBytes = counts?.headerBytes
    }
}
