import TransportAPI

/// The outcomes of all policies, and what they are outcomes of.
struct StormResults: Sendable {
    /// Environment, options and seed; it has no rows of its own.
    var run: RunResults
    var model: StormModel
    var outcomes: [(policy: StormPolicy, outcome: StormOutcome)] = []
}

/// Writes the results of `imbench storm`.
enum StormReport {
    /// - Parameter isUnicode: whether the plot may use more than ASCII. A table in Markdown never does.
    static func text(_ results: StormResults, format: Format, style: Style, isUnicode: Bool) -> String {
        switch format {
        case .json: json(results).readableText + "\n"
        case .csv: csv(results)
        case .markdown: markdown(results)
        case .html: html(results)
        case .table: plain(results, style, isUnicode)
        }
    }

    private static let title = "Everybody comes back: reconnect policies after a restart, in virtual time"

    private static func plain(_ results: StormResults, _ style: Style, _ isUnicode: Bool) -> String {
        var text = style.bold(title) + "\n"
        text += style.dim(conditions(results)) + "\n\n" + table(results).plain(style)
        for remark in remarks(results) { text += remark + "\n" }
        for (title, lines) in plots(results, isUnicode: isUnicode) {
            text += "\n" + style.bold(title) + "\n" + lines.map { $0 + "\n" }.joined()
        }
        return text
    }

    private static func markdown(_ results: StormResults) -> String {
        var text = "# imbench storm\n\n" + conditions(results) + "\n\n" + table(results).markdown
        for remark in remarks(results) { text += "\n" + remark + "\n" }
        for (title, lines) in plots(results, isUnicode: false) {
            text += "\n## \(title)\n\n```text\n" + lines.map { $0 + "\n" }.joined() + "```\n"
        }
        return text
    }

    private static func html(_ results: StormResults) -> String {
        var page = HTMLPage("imbench storm", about: title)
        page.warn(remarks(results))
        page.add(Report.facts(results.run))
        page.add(heading: "All policies")
        page.add([
            bars("Seconds until 99 % are back", results) {
                $0.secondsUntilBack(percent: 99)
            } shown: {
                seconds($0, percent: 99, results.model)
            },
            bars("Most attempts in a second", results) {
                Double($0.peak)
            } shown: {
                String($0.peak)
            },
        ])
        page.add(table(results))
        for (title, lines) in plots(results, isUnicode: true) {
            page.add(heading: title)
            page.add(preformatted: lines)
        }
        return page.text
    }

    /// One bar for each policy; none where there is no such number.
    private static func bars(
        _ title: String,
        _ results: StormResults,
        _ number: (StormOutcome) -> Double?,
        shown: (StormOutcome) -> String
    ) -> BarChart {
        BarChart(
            title: title,
            rows: results.outcomes.map { policy, outcome in
                BarChart.Row(policy.rawValue, number(outcome), shown: shown(outcome))
            }
        )
    }

    private static func conditions(_ results: StormResults) -> String {
        results.run.options.filter { !["policy", "format", "output", "seed"].contains($0.name) }
            .map { "\($0.name)=\($0.value)" }.joined(separator: " ") + " seed=\(results.run.seed)"
    }

    private static func plots(_ results: StormResults, isUnicode: Bool) -> [(String, [String])] {
        let timelines = results.outcomes.map(\.outcome.timeline)
        let plot = StormPlot(timelines, isUnicode: isUnicode)
        return zip(results.outcomes, timelines).map { entry, timeline in
            ("\(entry.policy.rawValue): attempts/s, clients back", plot.lines(timeline, clients: results.model.clients))
        }
    }

    /// What the numbers do not say by themselves.
    static func remarks(_ results: StormResults) -> [String] {
        var remarks: [String] = []
        if results.run.wasCutShort { remarks.append("CUT SHORT: the run was interrupted; policies are missing") }
        for (policy, outcome) in results.outcomes where outcome.stillTrying > 0 {
            let limit = DurationText.format(results.model.limit)
            remarks.append(
                "\(policy.rawValue): the limit of \(limit) was reached with \(outcome.stillTrying) still trying"
            )
        }
        for (policy, outcome) in results.outcomes where outcome.wasted > 0 {
            remarks.append("\(policy.rawValue): \(outcome.wasted) handshakes were wasted on clients that had left")
        }
        return remarks
    }

    static func table(_ results: StormResults) -> TextTable {
        let titles = [
            "peak/s", "once up", "attempts", "refused", "timed out", "50 % s", "99 % s", "100 % s", "gave up",
        ]
        return TextTable(
            columns: [.init(title: "policy", alignedRight: false)] + titles.map { .init(title: $0) },
            rows: results.outcomes.map { policy, outcome in
                var cells = [
                    policy.rawValue, String(outcome.peak), String(outcome.peakOnceUp), String(outcome.attempts),
                    String(outcome.refused), String(outcome.timedOut),
                ]
                cells += [50, 99, 100].map { seconds(outcome, percent: $0, results.model) }
                return TextTable.Row(cells: cells + [String(outcome.gaveUp)])
            }
        )
    }

    /// Seconds, or why there are none: too many gave up, or the limit came first.
    private static func seconds(_ outcome: StormOutcome, percent: Int, _ model: StormModel) -> String {
        if let seconds = outcome.secondsUntilBack(percent: percent) { return fixed(seconds, 1) }
        if outcome.isOutOfReach(percent: percent) { return "never" }
        return "> " + fixed(Double(model.limit.wholeNanoseconds) / 1e9, 1, trimmed: true)
    }
}
