/// A handshake as a ladder: the messages between client and server, from top to bottom, and the round trips in which they
/// are sent.
struct Ladder: Chart {
    /// One message, or the messages that one side sends together.
    struct Step: Sendable {
        var label: String
        var isFromClient: Bool
        /// Bytes on the wire; `nil` if they were not counted.
        var bytes: Int?
        /// The round trip to which it belongs, from 1.
        var roundTrip: Int
    }

    var title: String
    var steps: [Step] = []

    var isEmpty: Bool { steps.isEmpty }
    var names: [String] { steps.map(\.label) }
    var keys: [ChartKey] { [] }
    /// How many round trips begin.
    var roundTrips: Int { steps.map(\.roundTrip).max() ?? 0 }
    /// All counted bytes of both sides.
    var bytes: Int { steps.compactMap(\.bytes).reduce(0, +) }

    private static let stepHeight = 32.0
    /// How far an arrow falls, because a message takes time.
    private static let slope = 8.0
    private static let head = 24.0

    func drawing(width: Double) -> SVGDrawing {
        let (client, server) = (62.0, width - 22)
        let bottom = Self.head + Double(steps.count) * Self.stepHeight + 4
        var drawing = SVGDrawing(width: width, height: bottom + 2)
        var first = 0
        for (index, step) in steps.enumerated() {
            // A round trip is a band over its steps. Every second one is shaded.
            guard index == steps.count - 1 || steps[index + 1].roundTrip != step.roundTrip else { continue }
            let (top, height) = (Self.top(of: first), Double(index - first + 1) * Self.stepHeight)
            drawing.rectangle(
                x: 0,
                y: top,
                width: width,
                height: height,
                step.roundTrip % 2 == 1 ? "band odd" : "band"
            )
            drawing.text("RTT \(step.roundTrip)", at: (4, top + height / 2 + 4), "tick")
            first = index + 1
        }
        for (x, name) in [(client, "client"), (server, "server")] {
            drawing.text(name, at: (x, 13), "axis", anchor: .middle)
            drawing.line((x, Self.head - 4), (x, bottom), "base")
        }
        for (index, step) in steps.enumerated() {
            let top = Self.top(of: index) + 17
            let (from, to) = step.isFromClient ? (client, server) : (server, client)
            let tip: SVGDrawing.Point = (to, top + Self.slope)
            let style = step.isFromClient ? SeriesStyle(0) : SeriesStyle(1)
            drawing.line((from, top), tip, "arrow c\(style.number)")
            let back = step.isFromClient ? -8.0 : 8.0
            drawing.polygon([tip, (to + back, tip.y - 5.5), (to + back, tip.y + 2.5)], "point c\(style.number)")
            let bytes = step.bytes.map { ", \($0) B" } ?? ""
            let label = SVGDrawing.cut(step.label, to: server - client - 8 - SVGDrawing.width(of: bytes))
            drawing.text(label + bytes, at: ((client + server) / 2, top - 3), anchor: .middle)
        }
        return drawing
    }

    private static func top(of step: Int) -> Double { head + Double(step) * stepHeight }
}
