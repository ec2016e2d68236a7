/// The `imbench/1` JSON: units are in the names, what was not measured is null. A new field does not change the number in
/// the schema's name; a changed meaning does.
enum JSONReport {
    static func text(_ results: RunResults) -> String { value(results).readableText + "\n" }

    static func value(_ results: RunResults) -> JSONValue {
        .object([
            ("schema", .string("imbench/1")),
            ("environment", environment(results)),
            ("options", .object(results.options.map { ($0.name, .string($0.value)) })),
            ("cut_short", .bool(results.wasCutShort)),
            ("remarks", .array(results.remarks.map(JSONValue.string))),
            ("results", .array(results.rows.map(row))),
            ("floors", .array(results.floors.map(floor))),
        ])
    }

    /// The report of another command: the same members, with its own results and without floors.
    static func value(_ run: RunResults, results: [JSONValue]) -> JSONValue {
        guard case .object(let members) = value(run) else { return .null }
        return .object(
            members.filter { $0.0 != "floors" }.map { name, value in
                name == "results" ? (name, .array(results)) : (name, value)
            }
        )
    }

    private static func environment(_ results: RunResults) -> JSONValue {
        let environment = results.environment
        return .object([
            ("imbench", .string(version)),
            ("system", .string(environment.system)),
            ("processor", .string(environment.processor)),
            ("cores", .integer(environment.cores)),
            ("swift", .string(environment.swift)),
            ("build", .string(environment.isDebugBuild ? "debug" : "release")),
            ("commit", JSONValue(environment.commit)),
            ("date", .string(environment.date)),
            ("seed", .integer(Int(clamping: results.seed))),
            ("client_core", JSONValue(results.placement?.near)), ("server_core", JSONValue(results.placement?.far)),
            ("placement", .string(results.placement.kind.rawValue)),
            ("wake_ups", JSONValue(WakeUpRegime(results)?.name)),
        ])
    }

    static func row(_ row: ResultRow) -> JSONValue {
        var members: [(String, JSONValue)] = [
            ("transport", .string(row.transport)), ("codec", .string(row.codec)), ("size", .integer(row.size)),
            ("loop", .string(row.loop.rawValue)), ("outcome", .string(name(row.outcome))),
        ]
        if let reason = row.reason { members.append(("reason", .string(reason))) }
        members += [
            ("rtt_us", latency(row.rtt)),
            ("rtt_p50_interval_us", interval(row.rttP50Spread)),
        ]
        if row.loop == .open {
            members += [("service_us", latency(row.service)), ("target_msgs_per_s", rounded(row.targetRate))]
        }
        members += [
            ("floor", JSONValue(row.floor)),
            ("floor_rtt_us", row.floorP50.map { .object([("p50", .number($0))]) } ?? .null),
            ("ratio_to_floor_p50", rounded(row.ratioToFloor?.median)),
            ("ratio_to_floor_p50_interval", interval(row.ratioToFloor)), ("ratio_note", JSONValue(row.ratioNote)),
            ("throughput_msgs_per_s", rounded(row.throughput)),
            ("cpu_us_per_msg", rounded(row.cpuPerMessage)),
            ("bytes_per_msg", bytes(row.bytesPerMessage)),
            ("handshake", handshake(row.handshake)),
            ("keepalive_bytes_per_day", rounded(row.keepaliveBytesPerDay)),
            ("repeats", repeats(row.repeats)),
        ]
        let accounts = row.accounts
        members += [
            ("sent", .integer(accounts.sent)), ("acked", .integer(accounts.acked)), ("lost", .integer(accounts.lost)),
            ("in_flight", .integer(accounts.inFlight)), ("duplicated", .integer(accounts.duplicated)),
            ("reordered", .integer(accounts.reordered)), ("unexpected", .integer(accounts.unexpected)),
            ("accounts_close", .bool(accounts.closes)), ("errors", .integer(row.errors)),
        ]
        return .object(members)
    }

    private static func name(_ outcome: ResultRow.Outcome) -> String {
        switch outcome {
        case .measured: "measured"
        case .skipped: "skipped"
        case .failed: "failed"
        }
    }

    private static func floor(_ floor: FloorResult) -> JSONValue {
        var members: [(String, JSONValue)] = [("floor", .string(floor.kind.rawValue)), ("size", .integer(floor.size))]
        if let reason = floor.reason { members.append(("reason", .string(reason))) }
        members += [
            ("rtt_us", latency(floor.rtt)), ("rtt_p50_interval_us", interval(floor.p50Spread)),
            ("bimodal", .bool(floor.bimodality != nil)), ("repeats", repeats(floor.repeats)),
        ]
        return .object(members)
    }

    static func latency(_ latency: Latency?) -> JSONValue {
        guard let latency else { return .null }
        return .object([
            ("min", JSONValue(latency.minimum)), ("p50", JSONValue(latency.p50)), ("p90", JSONValue(latency.p90)),
            ("p99", JSONValue(latency.p99)), ("p999", JSONValue(latency.p999)), ("max", JSONValue(latency.maximum)),
            ("mean", JSONValue(latency.mean)), ("n", .integer(latency.count)),
        ])
    }

    private static func interval(_ statistics: RepeatStatistics?) -> JSONValue {
        guard let statistics, statistics.repeats > 1 else { return .null }
        return .object([
            ("low", rounded(statistics.low)), ("high", rounded(statistics.high)),
            ("coverage", .number(statistics.coverage)), ("repeats", .integer(statistics.repeats)),
        ])
    }

    /// The values of the repeats in their order, for `imbench compare`.
    private static func repeats(_ values: RepeatedValues) -> JSONValue {
        .object(
            RepeatedMetric.allCases.compactMap { metric in
                values[metric].map { (metric.key, .array($0.map(rounded))) }
            }
        )
    }

    private static func bytes(_ bytes: BytesPerMessage?) -> JSONValue {
        guard let bytes else { return .null }
        return .object([
            ("payload", rounded(bytes.payload)), ("codec", rounded(bytes.codec)), ("framing", rounded(bytes.framing)),
            ("transport_ip", rounded(bytes.transportIP)), ("wire", rounded(bytes.wire)),
            ("transport_ip_estimated", .bool(bytes.isEstimated)),
        ])
    }

    private static func handshake(_ handshake: Handshake?) -> JSONValue {
        guard let handshake else { return .null }
        return .object([
            ("ms", rounded(handshake.milliseconds)), ("bytes", .number(handshake.bytes)),
            ("round_trips", .integer(handshake.roundTrips)),
        ])
    }

    /// Four decimals: what lies beyond is never more than arithmetic.
    static func rounded(_ value: Double?) -> JSONValue {
        JSONValue(value.map { ($0 * 10_000).rounded() / 10_000 })
    }
}
