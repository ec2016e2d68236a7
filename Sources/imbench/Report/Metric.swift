/// One number of a row, by the name that `--assert` and the CSV header use. Units are in the names.
struct Metric: Sendable {
    var name: String
    /// The number, or `nil` if it was not measured or too few samples support it.
    var value: @Sendable (ResultRow) -> Double?

    static let all: [Metric] =
        latency("rtt") { $0.rtt }
        + latency("service") { $0.service }
        + [
            Metric(name: "floor.p50_us") { $0.floorP50 },
            Metric(name: "ratio_to_floor_p50") { $0.ratioToFloor?.median },
            Metric(name: "throughput_msgs_per_s") { $0.throughput },
            Metric(name: "target_msgs_per_s") { $0.targetRate },
            Metric(name: "cpu_us_per_msg") { $0.cpuPerMessage },
            Metric(name: "bytes.payload") { $0.bytesPerMessage?.payload },
            Metric(name: "bytes.codec") { $0.bytesPerMessage?.codec },
            Metric(name: "bytes.framing") { $0.bytesPerMessage?.framing },
            Metric(name: "bytes.transport_ip") { $0.bytesPerMessage?.transportIP },
            Metric(name: "bytes.wire") { $0.bytesPerMessage?.wire },
            Metric(name: "handshake.ms") { $0.handshake?.milliseconds },
            Metric(name: "handshake.bytes") { $0.handshake?.bytes },
            Metric(name: "handshake.round_trips") { $0.handshake.map { Double($0.roundTrips) } },
            Metric(name: "keepalive_bytes_per_day") { $0.keepaliveBytesPerDay },
            Metric(name: "sent") { Double($0.accounts.sent) },
            Metric(name: "acked") { Double($0.accounts.acked) },
            Metric(name: "lost") { Double($0.accounts.lost) },
            Metric(name: "in_flight") { Double($0.accounts.inFlight) },
            Metric(name: "duplicated") { Double($0.accounts.duplicated) },
            Metric(name: "reordered") { Double($0.accounts.reordered) },
            Metric(name: "unexpected") { Double($0.accounts.unexpected) },
            Metric(name: "errors") { Double($0.errors) },
        ]

    private static func latency(_ prefix: String, _ of: @escaping @Sendable (ResultRow) -> Latency?) -> [Metric] {
        [
            Metric(name: prefix + ".min_us") { of($0)?.minimum },
            Metric(name: prefix + ".p50_us") { of($0)?.p50 },
            Metric(name: prefix + ".p90_us") { of($0)?.p90 },
            Metric(name: prefix + ".p99_us") { of($0)?.p99 },
            Metric(name: prefix + ".p999_us") { of($0)?.p999 },
            Metric(name: prefix + ".max_us") { of($0)?.maximum },
            Metric(name: prefix + ".mean_us") { of($0)?.mean },
            Metric(name: prefix + ".n") { of($0).map { Double($0.count) } },
        ]
    }
}
