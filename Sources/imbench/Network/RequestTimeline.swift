import CommandSupport
import EmulatedNetworks
import Reporting

/// Who asks when, and who waits: the requests of a transport over HTTP until their answers, and what came without a request.
/// It is made from the packets of one repeat.
struct RequestTimeline: Sendable {
    var network: String
    var transport: String
    var packets: [LinkRecord]
    /// The time of the recording, in nanoseconds of the monotonic clock.
    var time: Range<Int64>

    /// The highest rate at which single requests can be seen, in messages per second.
    static let highestRate = 10.0
    /// How much of a recording is shown, in nanoseconds.
    private static let shown: Int64 = 8_000_000_000

    /// A chart of the timelines of one network; `nil` without any request. The repeats come in random order, and the rows in
    /// that of the report's transports.
    static func chart(_ recorded: [RequestTimeline], inOrderOf transports: [String]) -> BarChart? {
        let timelines = withOwnPackets(
            transports.flatMap { transport in recorded.filter { $0.transport == transport } }
        )
        guard timelines.contains(where: { $0.packets.contains(where: \.isHead) }) else { return nil }
        return BarChart(
            title: "Who asks when, and who waits, in ms",
            legend: [(.third, "a request, until its answer"), (.first, "data without a request")],
            rows: timelines.flatMap(\.rows)
        )
    }

    /// Leaves each connection to the transport in whose repeat it carried the most bytes. All transports are connected all the
    /// time, and some poll while others are measured.
    private static func withOwnPackets(_ timelines: [RequestTimeline]) -> [RequestTimeline] {
        var most: [UInt16: (bytes: Int, index: Int)] = [:]
        for (index, timeline) in timelines.enumerated() {
            for (port, packets) in Dictionary(grouping: timeline.packets, by: \.clientPort) {
                let bytes = packets.reduce(0) { $0 + $1.bytes }
                if bytes > most[port]?.bytes ?? 0 { most[port] = (bytes, index) }
            }
        }
        return timelines.enumerated().map { index, timeline in
            var timeline = timeline
            timeline.packets.removeAll { most[$0.clientPort]?.index != index }
            return timeline
        }
    }

    /// The packets of one connection with data.
    private struct Connection {
        var port: UInt16
        var packets: [LinkRecord]

        var bytes: Int { packets.reduce(0) { $0 + $1.bytes } }

        /// The methods of its requests, or that it only receives.
        var part: String {
            let methods = ["GET", "POST"].filter { method in
                packets.contains { $0.isFromClient && $0.summary.contains("HTTP \(method)") }
            }
            return methods.isEmpty ? "stream" : methods.joined(separator: " and ")
        }
    }

    /// Whether the messages are carried by requests.
    private var isHTTP: Bool { transport.hasPrefix("http") }
    /// A connection with fewer bytes than this share of those of the busiest one of its transport is another's that was
    /// silent or not yet open in its own repeat.
    private static let leastShare = 0.1

    /// A row for each connection, those that only send requests first.
    private var rows: [BarChart.Row] {
        connections.map { connection in
            let part = connection.part
            let count = connection.packets.count { $0.isFromClient && $0.isHead }
            return BarChart.Row(
                label: isHTTP ? "\(transport), \(part)" : transport,
                spans: spans(connection.packets),
                value: isHTTP && count > 0 ? counted(count, "request") : "",
                style: .transport(transport)
            )
        }
    }

    /// The transport's own connections, in an order that is the same in every run.
    private var connections: [Connection] {
        let data = packets.filter { $0.sent < end && $0.hasData }
        var connections: [Connection] = []
        for packet in data {
            if let index = connections.firstIndex(where: { $0.port == packet.clientPort }) {
                connections[index].packets.append(packet)
            } else {
                connections.append(Connection(port: packet.clientPort, packets: [packet]))
            }
        }
        // Encryption hides where a request begins. A request on a connection of frames is the poll of another transport.
        if isHTTP { connections.removeAll { $0.packets.contains { $0.summary.contains("encrypted") } } }
        if !isHTTP { connections.removeAll { $0.packets.contains(where: \.isHead) } }
        let most = connections.map(\.bytes).max() ?? 0
        connections.removeAll { Double($0.bytes) < Double(most) * Self.leastShare }
        let parts = ["POST", "GET and POST", "GET", "stream"]
        return connections.enumerated().sorted { first, second in
            let places = [first, second].map { parts.firstIndex(of: $0.element.part) ?? parts.count }
            return places[0] == places[1] ? first.offset < second.offset : places[0] < places[1]
        }.map(\.element)
    }

    private var end: Int64 { min(time.upperBound, time.lowerBound + Self.shown) }

    /// The spans of one connection, in milliseconds from the beginning.
    private func spans(_ packets: [LinkRecord]) -> [BarChart.Span] {
        func milliseconds(_ time: Int64) -> Double { Double(min(time, end) - self.time.lowerBound) / 1e6 }
        var spans: [BarChart.Span] = []
        var asked: Int64?
        for packet in packets {
            let arrival = packet.arrival ?? packet.sent
            if packet.isHead, packet.isFromClient {
                asked = asked ?? packet.sent
            } else if packet.isHead {
                // The request may have left before the recording.
                let from = milliseconds(asked ?? time.lowerBound)
                spans.append(.init(kind: .third, from: from, to: milliseconds(arrival)))
                asked = nil
            } else if asked == nil || !packet.isFromClient {
                spans.append(.init(kind: .first, from: milliseconds(packet.sent), to: milliseconds(arrival)))
            }
        }
        if let asked { spans.append(.init(kind: .third, from: milliseconds(asked), to: milliseconds(end))) }
        return spans
    }
}

extension LinkRecord {
    /// Whether it begins a request or an answer of HTTP.
    fileprivate var isHead: Bool { summary.contains("HTTP ") }
    /// Whether it carries data, and does not only begin or end a connection.
    fileprivate var hasData: Bool {
        !summary.split(separator: " ").allSatisfy { ["SYN", "FIN", "RST", "ACK"].contains($0) }
    }
}
