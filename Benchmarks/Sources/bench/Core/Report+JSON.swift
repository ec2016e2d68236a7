import Measuring
import Reporting

extension Report {
    /// All values of all repetitions. A changed meaning of a field changes the schema's number; a new field does not.
    var json: ReportValue {
        .object([
            ("schema", .string("im-benchmarks/1")),
            ("environment", environmentJSON),
            ("options", optionsJSON),
            ("cut_short", .bool(wasCutShort)),
            ("comparisons", .array(verdicts.map(Self.json))),
            ("contenders", .array(measurements.map(Self.json))),
        ])
    }

    private var environmentJSON: ReportValue {
        .object([
            ("system", .string(environment.system)), ("processor", .string(environment.processor)),
            ("cores", .integer(environment.cores)), ("swift", .string(environment.swift)),
            ("debug", .bool(environment.isDebugBuild)), ("commit", ReportValue(environment.commit)),
            ("date", .string(environment.date)),
        ])
    }

    private var optionsJSON: ReportValue {
        .object([
            ("repeat", .integer(options.repeats)), ("duration_ms", .integer(Int(options.duration / 1_000_000))),
            ("awake", .bool(options.isAwake)), ("only", .array(options.only.map(ReportValue.string))),
        ])
    }

    private static func json(_ verdict: Verdict) -> ReportValue {
        .object([
            ("name", .string(verdict.comparison.name)), ("ours", .string(verdict.ours.recipe.key)),
            ("peer", ReportValue(verdict.peer?.recipe.key)), ("ratio", ReportValue(verdict.ratio?.median)),
            ("ratio_low", ReportValue(verdict.ratio?.low)), ("ratio_high", ReportValue(verdict.ratio?.high)),
            ("ratio_idle", ReportValue(verdict.idleRatio?.median)),
            ("wanted", ReportValue(verdict.comparison.wanted?.text)), ("met", ReportValue(verdict.isMet)),
            ("reason", ReportValue(verdict.reason)),
        ])
    }

    private static func json(_ measurement: Measurement) -> ReportValue {
        let (outcome, reason): (String, String?) =
            switch measurement.outcome {
            case .measured: ("measured", nil)
            case .skipped(let why): ("skipped", why)
            case .failed(let why): ("failed", why)
            }
        return .object([
            ("name", .string(measurement.recipe.key)), ("unit", .string(measurement.recipe.workload.unit.rawValue)),
            ("outcome", .string(outcome)), ("reason", ReportValue(reason)),
            ("median", ReportValue(RepeatStatistics(measurement.values)?.median)),
            ("values", .array(measurement.values.map(ReportValue.number))),
            ("idle_values", .array(measurement.idleValues.map(ReportValue.number))),
            ("cpu_us", ReportValue(measurement.processorTime)),
        ])
    }
}
