import CommandSupport

/// A table for people and for programs.
package struct Table: Sendable {
    /// People see the columns with a title. Programs see the columns with a name.
    package struct Column: Sendable {
        package var title: String?
        /// Its name in CSV and JSON.
        package var name: String?
        /// One line for the legend: the meaning of the numbers, with their unit. Empty if the title says it.
        package var meaning: String
        package var alignedRight: Bool
        /// Whether HTML shows it with characters of one width, as for hexadecimal digits.
        var isMonospaced = false

        package static func text(_ title: String?, _ name: String? = nil, _ meaning: String = "") -> Column {
            Column(title: title, name: name, meaning: meaning, alignedRight: false)
        }

        package static func number(_ title: String?, _ name: String? = nil, _ meaning: String = "") -> Column {
            Column(title: title, name: name, meaning: meaning, alignedRight: true)
        }

        package static func hexadecimal(_ title: String?, _ name: String? = nil, _ meaning: String = "") -> Column {
            Column(title: title, name: name, meaning: meaning, alignedRight: false, isMonospaced: true)
        }
    }

    /// A value for programs and its text for people.
    package struct Cell: Sendable {
        /// Null if it was not measured.
        package var value: ReportValue
        package var text: String

        package init(_ text: String) { self.init(value: .string(text), text: text) }
        package init(_ number: Int?) { self.init(value: ReportValue(number), text: shown(number)) }
        package init(_ number: Double?) { self.init(number, shown(number)) }
        package init(_ number: Double?, _ text: String) { self.init(value: .rounded(number), text: text) }

        package init(value: ReportValue, text: String) {
            (self.value, self.text) = (value, text)
        }
    }

    package struct Row: Sendable {
        package var cells: [Cell]
        /// A sentence for people in place of all cells but the labels.
        package var note: String?
        /// Whether an earlier row has the same note.
        package var repeatsNote = false
        /// Whether the row is a failure, which is coloured.
        package var isFailure = false

        package init(cells: [Cell], note: String? = nil, repeatsNote: Bool = false, isFailure: Bool = false) {
            (self.cells, self.note, self.repeatsNote, self.isFailure) = (cells, note, repeatsNote, isFailure)
        }

        /// The reason, in formats whose rows keep their order.
        var shortNote: String? { repeatsNote ? "as above" : note }
    }

    /// The number of leading columns that name a row.
    package var labels = 1
    package var columns: [Column]
    package var rows: [Row] = []

    package init(labels: Int = 1, columns: [Column], rows: [Row] = []) {
        (self.labels, self.columns, self.rows) = (labels, columns, rows)
    }

    /// The columns for people.
    package var titled: [Column] { columns.filter { $0.title != nil } }

    /// The label columns, and of the others those with these titles, in the order of the titles.
    package func selecting(_ titles: [String]) -> Table {
        let others = titles.compactMap { title in columns.indices.dropFirst(labels).first { columns[$0].title == title }
        }
        let chosen = Array(columns.indices.prefix(labels)) + others
        var table = self
        table.columns = chosen.map { columns[$0] }
        table.rows = rows.map { row in
            var row = row
            row.cells = chosen.map { row.cells[$0] }
            return row
        }
        return table
    }

    /// One row for all rows with the same first `count` cells. A cell has the range of its numbers, or the different texts.
    package func merged(by count: Int) -> Table {
        var table = self
        table.labels = count
        let names = rows.map { $0.cells.prefix(count).map(\.text) }.distinct
        table.rows = names.map { name in
            let own = rows.filter { $0.cells.prefix(count).map(\.text) == name }
            let cells = columns.indices.map { column in
                Cell.merged(own.compactMap { $0.cells.indices.contains(column) ? $0.cells[column] : nil })
            }
            return Row(cells: cells, isFailure: own.contains(where: \.isFailure))
        }
        guard count < labels else { return table }
        // The other labels would be lists of all their values.
        let kept = Array(0..<count) + Array(labels..<columns.count)
        table.columns = kept.map { columns[$0] }
        for index in table.rows.indices { table.rows[index].cells = kept.map { table.rows[index].cells[$0] } }
        return table
    }

    /// The table without the rows that have a note.
    package var withoutNotes: Table {
        var table = self
        table.rows.removeAll { $0.note != nil }
        return table
    }

    /// The texts of a row for people: one for each column with a title, or the labels alone if there is a note.
    package func texts(_ row: Row) -> [String] {
        let texts = zip(columns, row.cells).compactMap { $0.title == nil ? nil : $1.text }
        guard row.note != nil else { return texts }
        return Array(texts.prefix(columns.prefix(labels).count { $0.title != nil }))
    }

    /// Each row as the members of a JSON object.
    package var members: [[(String, ReportValue)]] {
        rows.map { row in zip(columns, row.cells).compactMap { column, cell in column.name.map { ($0, cell.value) } } }
    }

    /// Aligned columns. A note spans the columns that its row omits.
    ///
    /// - Parameter width: the longest line. Long texts are wrapped. Columns that do not fit follow in a second block, after the
    ///   labels.
    package func plain(_ style: Style, width: Int = .max) -> String {
        let (columns, texts) = (titled, rows.map(texts))
        let labels = columns.isEmpty ? 0 : max(1, self.columns.prefix(self.labels).count { $0.title != nil })
        var widths = columns.indices.map { index in
            texts.reduce((columns[index].title ?? "").count) { max($0, index < $1.count ? $1[index].count : 0) }
        }
        for index in widths.indices.dropLast() where width < .max && !columns[index].alignedRight {
            widths[index] = min(widths[index], Self.widestText)
        }
        var text = ""
        for (number, block) in blocks(widths, labels, width).enumerated() {
            if number > 0 { text += "\n" }
            var widths = widths
            if let last = block.last, !columns[last].alignedRight {
                let used = block.dropLast().reduce(0) { $0 + widths[$1] + Self.gap.count }
                widths[last] = max(1, min(widths[last], width - used))
            }
            text += lines(block.map { columns[$0].title ?? "" }, block, widths).map { style.bold($0) + "\n" }.joined()
            for (row, cells) in zip(rows, texts) where row.note == nil || number == 0 {
                var drawn: [String]
                if let note = row.shortNote {
                    let used = cells.indices.reduce(0) { $0 + widths[$1] + Self.gap.count }
                    let wrapped = note.wrapped(to: max(1, width - used))
                    drawn = lines(cells, Array(cells.indices), widths, rest: wrapped)
                } else {
                    drawn = lines(block.map { cells[$0] }, block, widths)
                }
                drawn = drawn.map { row.isFailure ? style.red($0) : row.note == nil ? $0 : style.dim($0) }
                text += drawn.map { $0 + "\n" }.joined()
            }
        }
        return text
    }

    private static let gap = "  "
    /// The widest column of texts that is not the last one.
    private static let widestText = 30
    /// The least width of a wrapped last column.
    private static let narrowestText = 16

    /// The columns of each block: the labels, and as many others as fit.
    private func blocks(_ widths: [Int], _ labels: Int, _ width: Int) -> [[Int]] {
        let names = Array(0..<labels)
        let start = names.reduce(-Self.gap.count) { $0 + widths[$1] + Self.gap.count }
        var blocks = [names]
        var used = start
        for index in widths.indices.dropFirst(labels) {
            let isWrapped = index == widths.count - 1 && !titled[index].alignedRight
            let needed = isWrapped ? min(widths[index], Self.narrowestText) : widths[index]
            if width - used < Self.gap.count + needed, blocks[blocks.count - 1].count > labels {
                blocks.append(names)
                used = start
            }
            blocks[blocks.count - 1].append(index)
            used += Self.gap.count + widths[index]
        }
        return blocks
    }

    /// The lines of a row whose cells are wrapped to the widths of their columns, and after them the lines of `rest`.
    private func lines(_ cells: [String], _ block: [Int], _ widths: [Int], rest: [String] = []) -> [String] {
        let wrapped = zip(cells, block).map { cell, column in
            cell.count <= widths[column] ? [cell] : cell.wrapped(to: widths[column])
        }
        let height = max(1, (wrapped.map(\.count) + [rest.count]).max() ?? 1)
        return (0..<height).map { line in
            var parts = zip(wrapped, block).map { lines, column in
                (line < lines.count ? lines[line] : "")
                    .padded(to: widths[column], alignedRight: titled[column].alignedRight)
            }
            if line < rest.count { parts.append(rest[line]) }
            return parts.joined(separator: Self.gap).withoutTrailingSpaces
        }
    }
}

extension Table.Cell {
    /// One cell for several: the least and the greatest number, or each text once.
    fileprivate static func merged(_ cells: [Table.Cell]) -> Table.Cell {
        let known = cells.filter { $0.value != .null }
        let cells = known.isEmpty ? cells : known
        let texts = cells.map(\.text).distinct
        guard texts.count > 1 else { return cells.first ?? Table.Cell("") }
        let numbers = cells.filter { $0.number != nil }.sorted { ($0.number ?? 0) < ($1.number ?? 0) }
        guard numbers.count == cells.count, let low = numbers.first, let high = numbers.last else {
            return Table.Cell(texts.joined(separator: ", "))
        }
        return Table.Cell("\(low.text)–\(high.text)")
    }

    private var number: Double? {
        switch value {
        case .integer(let number): Double(number)
        case .number(let number): number
        default: nil
        }
    }

    /// A whole number with all its digits, or another one with about three.
    package static func wholeOrShown(_ value: Double?) -> Table.Cell {
        guard let value, value == value.rounded(), value.magnitude < 1e15 else { return Table.Cell(value) }
        return Table.Cell(value, grouped(fixed(value, 0)))
    }
}
