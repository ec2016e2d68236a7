import CommandSupport
import Measuring
import Reporting

/// The smallest tables that answer what a transport costs. A terminal shows them without `--details`.
extension RunResults {
    var summary: [Report.Section] {
        guard rows.contains(where: { $0.rtt != nil }) else { return [] }
        var costs = Self.table(rows).withoutNotes.selecting(["CPU µs", "open ms", "guarantees"]).merged(
            by: 1
        )
        // What a transport is needs no line in the smallest report.
        costs.columns[0].meaning = ""
        return [
            Report.Section(
                heading: "Round trip in µs, by bytes of text: the median and its 95 % interval",
                table: medians,
                notes: reasons,
                media: .textOnly
            ),
            Report.Section(
                heading: "A message and a connection: the least and the most of its rows",
                table: costs,
                notes: advice,
                media: .textOnly
            ),
        ]
    }

    private var medians: Table { bySize(Self.median) }

    /// The bytes of a message on the wire.
    var wireBytes: Table {
        bySize { row in
            row.reason == nil
                ? row.bytesPerMessage.map { fixed($0.wire, 0) } ?? "none" : row.hasFailed ? "failed" : "none"
        }
    }

    /// A line for each transport and codec, and a column for each size.
    private func bySize(_ text: (ResultRow) -> String) -> Table {
        struct Line: Hashable {
            var transport: String
            var codec: String
        }
        let sizes = rows.map(\.size).distinct
        let lines = rows.map { Line(transport: $0.transport, codec: $0.codec) }.distinct
        return Table(
            labels: 2,
            columns: [
                .text("transport"), .text("codec"),
            ] + sizes.map { .number("\($0) bytes") }
                + [
                    .text("ok", nil, Self.accountsMeaning)
                ],
            rows: lines.map { line in
                let own = rows.filter { $0.transport == line.transport && $0.codec == line.codec }
                var sum = ResultRow(transport: line.transport, codec: line.codec, size: 0)
                for row in own {
                    sum.accounts += row.accounts
                    sum.errors += row.errors
                }
                let cells = sizes.map { size in Table.Cell(own.first { $0.size == size }.map(text) ?? "") }
                return Table.Row(
                    cells: [Table.Cell(line.transport), Table.Cell(line.codec)] + cells
                        + [Table.Cell(own.contains { $0.rtt != nil } ? Self.accounts(of: sum) : "")],
                    isFailure: own.contains(where: \.hasFailed)
                )
            }
        )
    }

    private static func median(_ row: ResultRow) -> String {
        guard row.reason == nil else { return row.hasFailed ? "failed" : "none" }
        return row.rttP50Spread?.text ?? shown(row.rtt?.p50)
    }

    /// Why rows were skipped. The verdict says why rows failed.
    var reasons: [String] {
        let skipped = rows.filter { !$0.hasFailed && $0.reason != nil }
        return skipped.compactMap(\.reason).distinct.map { reason in
            let names = skipped.filter { $0.reason == reason }.map { "\($0.transport) \($0.codec) \($0.size)" }
            return "\(names.joined(separator: ", ")): \(reason)"
        }
    }
}
