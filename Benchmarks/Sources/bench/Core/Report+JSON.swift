extension Report {
    /// All values of all repetitions. A changed meaning of a field changes the schema's number; a new field does not.
    var json: JSONValue {
        .object([
            ("schema", .string("im-benchmarks/1")),
            ("environment", environmentJSON),
            ("options", optionsJSON),
            ("cut_short", .bool(wasCutShort)),
            ("comparisons", .array(verdicts.map(Self.json))),
            ("contenders", .array(measurements.map(Self.json))),
        ])
    }

    private var environmentJSON: JSONValue {
        .object([
            ("system", .string(environment.system)), ("processor", .string(environment.processor)),
            ("cores", .integer(environment.cores)), ("swift", .string(environment.swift)),
            ("debug", .bool(environment.isDebugBuild)), ("commit", JSONValue(environment.commit)),
            ("date", .string(environment.date)),
        ])
    }

    private var optionsJSON: JSONValue {
        .object([
            ("repeat", .integer(options.repeats)), ("duration_ms", .integer(Int(options.duration / 1_000_000))),
            ("awake", .bool(options.isAwake)), ("only", .array(options.only.map(JSONValue.string))),
        ])
    }

    private static func json(_ verdict: Verdict) -> JSONValue {
        .object([
            ("name", .string(verdict.comparison.name)), ("ours", .string(verdict.ours.recipe.key)),
            ("peer", JSONValue(verdict.peer?.recipe.key)), ("ratio", JSONValue(verdict.ratio?.median)),
            ("ratio_low", JSONValue(verdict.ratio?.low)), ("ratio_high", JSONValue(verdict.ratio?.high)),
            ("ratio_idle", JSONValue(verdict.idleRatio?.median)),
            ("wanted", JSONValue(verdict.comparison.wanted?.text)), ("met", JSONValue(verdict.isMet)),
            ("reason", JSONValue(verdict.reason)),
        ])
    }

    private static func json(_ measurement: Measurement) -> JSONValue {
        let (outcome, reason): (String, String?) =
            switch measurement.outcome {
            case .measured: ("measured", nil)
            case .skipped(let why): ("skipped", why)
            case .failed(let why): ("failed", why)
            }
        return .object([
            ("name", .string(measurement.recipe.key)), ("unit", .string(measurement.recipe.workload.unit.rawValue)),
            ("outcome", .string(outcome)), ("reason", JSONValue(reason)),
            ("median", JSONValue(RepeatStatistics(measurement.values)?.median)),
            ("values", .array(measurement.values.map(JSONValue.number))),
            ("idle_values", .array(measurement.idleValues.map(JSONValue.number))),
            ("cpu_us", JSONValue(measurement.processorTime)),
        ])
    }
}
