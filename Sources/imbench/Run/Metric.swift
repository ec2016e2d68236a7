import CommandSupport
import Measuring
import Reporting

/// One number of a row: its names, its meaning, and how to get it. Tables, legends, CSV, JSON and `--assert` are made from
/// ``all``. The sections of `RunReport` select their columns by title.
struct Metric: Sendable {
    /// The name in `--assert` and CSV, with the unit.
    var name: String
    /// The member of a result in JSON, as in `rtt_us.p50`; `nil` if JSON does not have the number.
    var key: String?
    /// The heading of its column.
    var title: String
    /// One line for the legend, with the unit.
    var meaning: String
    var form = Form.digits
    /// The number, or `nil` if it was not measured or there are too few samples.
    var value: @Sendable (ResultRow) -> Double?

    /// How a table writes the number.
    enum Form: Sendable {
        /// About three significant digits.
        case digits
        /// At most one decimal.
        case tenth
        case whole
    }

    /// The metric with this title. A title that two metrics have is that of the first one.
    static func titled(_ title: String) -> Metric? { all.first { $0.title == title } }

    static func named(_ name: String) -> Metric? { all.first { $0.name == name } }

    var column: Table.Column { .number(title, name, meaning) }

    func cell(_ row: ResultRow) -> Table.Cell {
        let value = value(row)
        let text = value.map {
            switch form {
            case .digits: shown($0)
            case .tenth: grouped(fixed($0, 1, trimmed: true))
            case .whole: grouped(fixed($0, 0))
            }
        }
        return Table.Cell(value, text ?? "-")
    }

    /// The members of a result in JSON. An object without any number is null.
    static func members(_ row: ResultRow, where isIncluded: (Metric) -> Bool) -> [(String, ReportValue)] {
        var objects: [(name: String, members: [(String, ReportValue)])] = []
        for metric in all where isIncluded(metric) {
            guard let key = metric.key?.split(separator: ".").map(String.init), let name = key.first else { continue }
            if objects.last?.name != name { objects.append((name, [])) }
            objects[objects.count - 1].members.append((key.count > 1 ? key[1] : "", .rounded(metric.value(row))))
        }
        return objects.map { name, members in
            if let only = members.first, only.0.isEmpty { return (name, only.1) }
            return (name, members.allSatisfy { $0.1 == .null } ? .null : .object(members))
        }
    }

    static let all = trips + speed + bytes + opening + accounts + pictures

    /// Whether only runs with a picture have it.
    var isOfPicture: Bool { name.hasPrefix("picture.") || name.hasPrefix("pieces.") }

    private static let trips =
        latency("rtt", "", "round trip") { $0.rtt }
        + [
            Metric(name: "rtt.p50_low_us", title: "p50 low", meaning: "low end of the 95 % interval of p50, in µs") {
                $0.rttP50Spread?.interval?.low
            },
            Metric(name: "rtt.p50_high_us", title: "p50 high", meaning: "high end of the 95 % interval of p50, in µs") {
                $0.rttP50Spread?.interval?.high
            },
        ]
        + latency("service", "service ", "round trip from the actual send time") { $0.service }
        + [
            Metric(name: "floor.p50_us", key: "floor_rtt_us.p50", title: "floor µs", meaning: "p50 of its floor, in µs")
            {
                $0.floorP50
            },
            Metric(
                name: "ratio_to_floor_p50",
                key: "ratio_to_floor_p50",
                title: "×floor",
                meaning: "p50 over that of bare system calls in the same repeat; the median of these"
            ) { $0.ratioToFloor?.median },
        ]

    private static let speed = [
        Metric(
            name: "throughput_msgs_per_s",
            key: "throughput_msgs_per_s",
            title: "msgs/s",
            meaning: "messages answered per second"
        ) { $0.throughput },
        Metric(
            name: "target_msgs_per_s",
            key: "target_msgs_per_s",
            title: "target/s",
            meaning: "requested messages per second"
        ) { $0.targetRate },
        Metric(
            name: "target_percent",
            title: "of target",
            meaning: "messages sent per second, in % of the requested rate"
        ) { row in row.sendRate.flatMap { rate in row.targetRate.map { rate / $0 * 100 } } },
        Metric(
            name: "cpu_us_per_msg",
            key: "cpu_us_per_msg",
            title: "CPU µs",
            meaning: "processor time of the client per message, in µs"
        ) { $0.cpuPerMessage },
    ]

    private static let bytes = [
        Metric(
            name: "bytes.payload",
            key: "bytes_per_msg.payload",
            title: "text",
            meaning: "bytes of the text",
            form: .tenth
        ) { $0.bytesPerMessage?.payload },
        Metric(
            name: "bytes.codec",
            key: "bytes_per_msg.codec",
            title: "+codec",
            meaning: "bytes that the codec adds",
            form: .tenth
        ) { $0.bytesPerMessage?.codec },
        Metric(
            name: "bytes.framing",
            key: "bytes_per_msg.framing",
            title: "framing and topic",
            meaning: "bytes that framing and topic add; below 0 with compression",
            form: .tenth
        ) { $0.bytesPerMessage?.framing },
        Metric(
            name: "bytes.header",
            key: "bytes_per_msg.header",
            title: "+framing",
            meaning:
                "bytes that the framing adds, with acknowledgements; below 0 with compression",
            form: .tenth
        ) { $0.bytesPerMessage?.header },
        Metric(
            name: "bytes.topic",
            key: "bytes_per_msg.topic",
            title: "+topic",
            meaning: "bytes of the topic, whose length the app chooses",
            form: .tenth
        ) { $0.bytesPerMessage?.topic },
        Metric(
            name: "bytes.tls",
            key: "bytes_per_msg.tls",
            title: "+TLS",
            meaning: "bytes that the records of TLS add",
            form: .tenth
        ) { $0.bytesPerMessage?.tls },
        Metric(
            name: "bytes.transport_ip",
            key: "bytes_per_msg.transport_ip",
            title: "+IP",
            meaning: "bytes of TCP or UDP and IP headers, acknowledgements included",
            form: .tenth
        ) { $0.bytesPerMessage?.transportIP },
        Metric(
            name: "bytes.wire",
            key: "bytes_per_msg.wire",
            title: "wire B",
            meaning: "bytes of a message in one direction, all layers together",
            form: .tenth
        ) { $0.bytesPerMessage?.wire },
        Metric(
            name: "bytes_per_day",
            key: "bytes_per_day",
            title: "B/day",
            meaning: "bytes of one client in a day at this rate, all layers and both directions",
            form: .whole
        ) { $0.bytesPerDay },
        Metric(
            name: "bytes.overhead_percent",
            title: "more %",
            meaning: "bytes beside the text, in % of the text",
            form: .whole
        ) { $0.bytesPerMessage.flatMap { $0.payload > 0 ? ($0.wire / $0.payload - 1) * 100 : nil } },
    ]

    private static let opening = [
        Metric(
            name: "handshake.ms",
            key: "handshake.ms",
            title: "open ms",
            meaning: "time to open a connection, in ms"
        ) { $0.handshake?.milliseconds },
        Metric(
            name: "handshake.bytes",
            key: "handshake.bytes",
            title: "open B",
            meaning: "handshake bytes in both directions, without TCP/IP headers",
            form: .whole
        ) { $0.handshake?.bytes },
        Metric(
            name: "handshake.round_trips",
            key: "handshake.round_trips",
            title: "open RTTs",
            meaning: "round trips until the first message may leave, TCP's own included",
            form: .whole
        ) { $0.handshake.map { Double($0.roundTrips) } },
        Metric(
            name: "keepalive_bytes_per_day",
            key: "keepalive_bytes_per_day",
            title: "keepalive B/day",
            meaning: "bytes of all layers on an idle connection in a day: pings, and polls or comments over HTTP",
            form: .whole
        ) { $0.keepaliveBytesPerDay },
    ]

    private static let accounts = [
        count("sent", "messages sent") { $0.accounts.sent },
        count("acked", "messages answered") { $0.accounts.acked },
        count("lost", "messages that got no answer") { $0.accounts.lost },
        count("in_flight", "messages in flight at the end") { $0.accounts.inFlight },
        count("duplicated", "answers that arrived twice") { $0.accounts.duplicated },
        count("reordered", "answers that overtook another") { $0.accounts.reordered },
        count("unexpected", "answers to no message") { $0.accounts.unexpected },
        count("errors", "messages that could not be sent, and other errors") { $0.errors },
    ]

    private static let pictures =
        [
            time("p50", "picture ms", "median time of a picture, in ms") { $0.median },
            time("min", "shortest picture ms", "shortest time of a picture, in ms") { $0.minimum },
            time("max", "longest picture ms", "longest time of a picture, in ms") { $0.maximum },
            Metric(
                name: "picture.n",
                key: "picture_ms.n",
                title: "pictures",
                meaning: "pictures that arrived whole",
                form: .whole
            ) { row in row.sentPicture.map { Double($0.count) } },
            Metric(
                name: "picture.mbit_per_s",
                key: "picture_mbit_per_s",
                title: "Mbit/s",
                meaning: "megabits of the picture per second, in each direction"
            ) { $0.sentPicture?.megabitsPerSecond },
        ]
        + [
            piece("sent", "pieces of pictures that were sent") { $0.sent },
            piece("acked", "pieces that came back") { $0.acked },
            piece("lost", "pieces that did not come back") { $0.lost },
            piece("in_flight", "pieces in flight at the end") { $0.inFlight },
            piece("duplicated", "pieces that came back twice") { $0.duplicated },
            piece("reordered", "pieces that overtook another") { $0.reordered },
            piece("unexpected", "pieces that came back without being sent") { $0.unexpected },
        ]

    private static func time(
        _ member: String,
        _ title: String,
        _ meaning: String,
        _ of: @escaping @Sendable (PictureFigures) -> Double?
    ) -> Metric {
        Metric(name: "picture.\(member)_ms", key: "picture_ms.\(member)", title: title, meaning: meaning) {
            $0.sentPicture.flatMap(of)
        }
    }

    private static func piece(
        _ name: String,
        _ meaning: String,
        _ of: @escaping @Sendable (DeliveryCounts) -> Int
    ) -> Metric {
        Metric(name: "pieces.\(name)", key: "pieces.\(name)", title: "pieces \(name)", meaning: meaning, form: .whole) {
            $0.sentPicture.map { Double(of($0.pieces)) }
        }
    }

    private static func count(
        _ name: String,
        _ meaning: String,
        _ of: @escaping @Sendable (ResultRow) -> Int
    ) -> Metric {
        Metric(name: name, key: name, title: name, meaning: meaning, form: .whole) { Double(of($0)) }
    }

    private static func latency(
        _ name: String,
        _ title: String,
        _ meaning: String,
        _ of: @escaping @Sendable (ResultRow) -> Latency?
    ) -> [Metric] {
        func metric(
            _ member: String,
            _ head: String,
            _ part: String,
            _ value: @escaping @Sendable (Latency) -> Double?
        ) -> Metric {
            Metric(
                name: "\(name).\(member)_us",
                key: "\(name)_us.\(member)",
                title: "\(title)\(head) µs",
                meaning: "\(part) \(meaning), in µs"
            ) { of($0).flatMap(value) }
        }
        return [
            metric("min", "min", "shortest") { $0.minimum },
            metric("p50", "p50", "median") { $0.p50 },
            metric("p90", "p90", "90th percentile of the") { $0.p90 },
            metric("p99", "p99", "99th percentile of the") { $0.p99 },
            metric("p999", "p99.9", "99.9th percentile of the") { $0.p999 },
            metric("max", "max", "longest") { $0.maximum },
            metric("mean", "mean", "mean") { $0.mean },
            Metric(
                name: name + ".n",
                key: name + "_us.n",
                title: title + "n",
                meaning: "number of measured round trips",
                form: .whole
            ) { of($0).map { Double($0.count) } },
        ]
    }
}

extension RepeatedMetric {
    /// The heading of its column.
    var title: String { Metric.named(rawValue)?.title ?? rawValue }
    /// One line for the legend.
    var meaning: String { Metric.named(rawValue)?.meaning ?? "" }
}
