import CPages

/// The style of charts: the rules of `charts.css`, with colours that are light or dark like the reader's system.
package enum ChartStyle {
    private static let rules = String(cString: cpages_charts_css())

    /// The style of charts in a page, whose own rules may use the same colours. Paper is light.
    static let page = """
        :root { color-scheme: light dark; \(variables(\.light)) }
        @media screen and (prefers-color-scheme: dark) {
          :root { \(variables(\.dark)) }
        }
        \(rules)
        """

    /// The style of a chart in a file of its own. It has colours in place of variables, because many programs that show SVG
    /// files do not know variables.
    static let file = """
        svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
        \(coloured(fileRules, \.light))
        @media (prefers-color-scheme: dark) {
        \(coloured(fileRules.filter { $0.contains("var(") }, \.dark))
        }

        """

    /// The rules of a file: a card as in a page, and no backgrounds, because drawings have none.
    private static let fileRules =
        [
            "svg { color: var(--quiet); }", ".card { fill: var(--card); stroke: var(--line); }",
            "svg text.title { font-size: 13px; font-weight: 600; }",
        ]
        + rules.replacing(#/ background: [^;]*;/#, with: "").split(separator: "\n").map(String.init)

    private static func variables(_ scheme: KeyPath<Colour, String>) -> String {
        colours.map { "--\($0.name): \($0[keyPath: scheme]);" }.joined(separator: " ")
    }

    /// The rules with the colours of a scheme.
    private static func coloured(_ rules: [String], _ scheme: KeyPath<Colour, String>) -> String {
        colours.reduce(rules.joined(separator: "\n")) { text, colour in
            text.replacing("var(--\(colour.name))", with: colour[keyPath: scheme])
        }
    }

    private struct Colour: Sendable {
        var name: String
        var light: String
        var dark: String

        init(_ name: String, _ light: String, _ dark: String) {
            (self.name, self.light, self.dark) = (name, light, dark)
        }
    }

    private static let colours = [
        Colour("card", "#ffffff", "#1b1e22"),
        Colour("text", "#1b1d21", "#e7e9ec"),
        Colour("quiet", "#5c626c", "#a0a7b1"),
        Colour("line", "#e0e1de", "#2f343a"),
        Colour("grid", "#e8e9e6", "#282c32"),
        Colour("first", "#2565c7", "#5b9bf3"),
        Colour("second", "#74a9ee", "#2f64a5"),
        Colour("third", "#b08be0", "#9277cf"),
        Colour("fourth", "#c9cdd4", "#596069"),
        Colour("tail", "#c3d6f4", "#2c4568"),
        Colour("mark", "#1b1d21", "#f2f3f5"),
        Colour("better", "#1a6fbd", "#5aaef5"),
        Colour("worse", "#c2500f", "#f0894f"),
        Colour("noise", "#9aa0a9", "#757c86"),
        Colour("connected", "#9db7dd", "#3c5f93"),
        Colour("undetected", "#c2500f", "#f0894f"),
        Colour("reconnecting", "#6a7079", "#8d949e"),
        Colour("bad", "#b3430c", "#f59b66"),
        Colour("c0", "#0b62b8", "#62adf7"),
        Colour("c1", "#c2500f", "#ff9457"),
        Colour("c2", "#0a7d5d", "#45cfa3"),
        Colour("c3", "#a03a8c", "#e48fd0"),
        Colour("c4", "#7c6400", "#dcb945"),
        Colour("c5", "#5a4fc9", "#a9a1ff"),
        Colour("c6", "#4b5563", "#b6bec9"),
    ]
}
