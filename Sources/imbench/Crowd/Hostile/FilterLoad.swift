/// SUBSCRIBEs whose filters nobody else has, nor the same client had before.
///
/// They are put together once, and only whose they are is written into them each time: else it would take a hostile client longer
/// to make them than a broker to work them off.
struct FilterLoad: Sendable {
    /// How each filter names its client and its round in what it is made from.
    static let mark = "c000000/r00000000/"

    private let template: [UInt8]
    /// Where the marks begin.
    private let places: [Int]

    init(_ template: [UInt8]) {
        let mark = Array(Self.mark.utf8)
        self.template = template
        places = template.indices.filter { template[$0...].starts(with: mark) }
    }

    /// What this client sends in this round.
    func bytes(_ client: Int, _ round: Int) -> [UInt8] {
        var mark = Array(Self.mark.utf8)
        Self.write(client, to: &mark[1..<7])
        Self.write(round, to: &mark[9..<17])
        var bytes = template
        for place in places {
            for (offset, byte) in mark.enumerated() { bytes[place + offset] = byte }
        }
        return bytes
    }

    private static func write(_ number: Int, to digits: inout ArraySlice<UInt8>) {
        var rest = number
        for index in digits.indices.reversed() {
            digits[index] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
    }
}
