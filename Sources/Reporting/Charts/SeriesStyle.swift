/// The colour and the dashes of a line, the colour and the shape of a point, or the colour of a bar.
package struct SeriesStyle: Sendable, Hashable {
    /// How many colours and how many dash patterns the style of the page has. They have no common divisor.
    static let colours = 7
    static let dashes = 8

    private var colour: Int
    private var dash: Int

    private init(colour: Int, dash: Int) { (self.colour, self.dash) = (colour, dash) }

    /// The style of a line by its place among others. Neighbours differ in both, so colours are not needed to tell lines
    /// apart.
    package init(_ place: Int) { self.init(colour: max(0, place) % Self.colours, dash: max(0, place) % Self.dashes) }

    /// The style of a transport, which is the same in every chart of every report. Transports of one protocol share a
    /// colour. One that has no place in the table has the colour of the longest name there that begins its own, as that of
    /// `http` for `http-session`. Any other gets one of the styles that are left, by its name.
    package static func transport(_ name: String) -> SeriesStyle {
        if let style = transports[name] { return style }
        var base = name[...]
        while let end = base.lastIndex(of: "-") {
            base = base[..<end]
            if let style = transports[String(base)] {
                return SeriesStyle(colour: style.colour, dash: (style.dash + 2) % dashes)
            }
        }
        // FNV-1a.
        let hash = name.utf8.reduce(UInt32(2_166_136_261)) { ($0 ^ UInt32($1)) &* 16_777_619 }
        return others[Int(hash) % others.count]
    }

    /// The plain transports over a network differ from each other in both colour and dashes. All transports of one protocol have
    /// one colour.
    private static let transports: [String: SeriesStyle] = [
        "tcp": SeriesStyle(colour: 0, dash: 0),
        "tcp-session": SeriesStyle(colour: 0, dash: 1),
        "tls": SeriesStyle(colour: 0, dash: 4),
        "ws": SeriesStyle(colour: 1, dash: 1),
        "wss": SeriesStyle(colour: 1, dash: 0),
        "ws-session": SeriesStyle(colour: 1, dash: 2),
        "ws-deflate": SeriesStyle(colour: 1, dash: 3),
        "mqtt": SeriesStyle(colour: 2, dash: 2),
        "mqtts": SeriesStyle(colour: 2, dash: 0),
        "mqtt-qos1": SeriesStyle(colour: 2, dash: 1),
        "mqtt-qos2": SeriesStyle(colour: 2, dash: 3),
        "mqtt-early": SeriesStyle(colour: 2, dash: 4),
        "mqtt+ws": SeriesStyle(colour: 2, dash: 5),
        "mqtt+wss": SeriesStyle(colour: 2, dash: 6),
        "mqtt-session": SeriesStyle(colour: 2, dash: 7),
        "stomp": SeriesStyle(colour: 6, dash: 6),
        "stomp+tls": SeriesStyle(colour: 6, dash: 1),
        "stomp+ws": SeriesStyle(colour: 6, dash: 3),
        "stomp+wss": SeriesStyle(colour: 6, dash: 4),
        "xmpp": SeriesStyle(colour: 4, dash: 4),
        "xmpps": SeriesStyle(colour: 4, dash: 3),
        "http": SeriesStyle(colour: 5, dash: 5),
        "https": SeriesStyle(colour: 5, dash: 0),
        "http-sse": SeriesStyle(colour: 5, dash: 2),
        "http-long-poll": SeriesStyle(colour: 5, dash: 3),
        "http-poll": SeriesStyle(colour: 5, dash: 4),
        "udp": SeriesStyle(colour: 3, dash: 3),
        "dtls": SeriesStyle(colour: 3, dash: 1),
        "udp-reliable": SeriesStyle(colour: 3, dash: 4),
        "udp-unordered": SeriesStyle(colour: 3, dash: 2),
        "udp-session": SeriesStyle(colour: 3, dash: 0),
        "memory": SeriesStyle(colour: 6, dash: 7),
    ]

    private static let others: [SeriesStyle] = {
        let taken = Set(transports.values)
        return (0..<colours * dashes).map { SeriesStyle($0) }.filter { !taken.contains($0) }
    }()

    /// The classes in the style of the page.
    var classes: String { "\(colourClass) d\(dash)" }
    /// The class of a shape that has no dashes.
    var colourClass: String { "c\(colour)" }

    /// Draws a point, whose shape takes the place of dashes: a circle, a square, a triangle or a diamond, filled or hollow.
    func drawPoint(at centre: SVGDrawing.Point, _ drawing: inout SVGDrawing) {
        let classes = (dash.isMultiple(of: 2) ? "point" : "point hollow") + " \(colourClass)"
        let (x, y) = centre
        switch dash / 2 {
        case 0: drawing.circle(centre, radius: 3, classes)
        case 1: drawing.polygon([(x - 3, y - 3), (x + 3, y - 3), (x + 3, y + 3), (x - 3, y + 3)], classes)
        case 2: drawing.polygon([(x, y - 3.7), (x + 3.7, y + 3), (x - 3.7, y + 3)], classes)
        default: drawing.polygon([(x, y - 4), (x + 4, y), (x, y + 4), (x - 4, y)], classes)
        }
    }
}
