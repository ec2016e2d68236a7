import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite struct AxisTests {
    @Test(
        "Ticks lie within the ends, ascend, and are at least two and at most as many as allowed",
        arguments: [Axis.Scale.linear, .logarithmic, .nines],
        [2, 3, 5, 9]
    )
    func ticks(_ scale: Axis.Scale, _ limit: Int) {
        for (low, high) in [(0.01, 99.9), (60, 90), (3, 4), (1, 99.999), (0.5, 7.5), (97, 97)] {
            let axis = Axis(scale: scale).fitted(to: [low, high])
            let values = axis.ticks(atMost: limit).map(\.value)
            #expect((1...limit).contains(values.count), "\(scale) \(low) \(high)")
            if limit > 3 { #expect(values.count > 1, "\(scale) \(low) \(high)") }
            #expect(values == values.sorted() && Set(values).count == values.count)
            for value in values {
                #expect(axis.range.lowerBound - 1e-9 <= value && value <= axis.range.upperBound + 1e-9)
                #expect(axis.place(value).map { (-1e-9...1 + 1e-9).contains($0) } == true)
            }
        }
    }

    @Test("A linear axis has multiples of 1, 2 or 5, and includes 0")
    func linear() {
        let axis = Axis().fitted(to: [12, 87])
        #expect(axis.range == 0...87)
        #expect(axis.ticks(atMost: 5).map(\.label) == ["0", "20", "40", "60", "80"])
        #expect(axis.place(43.5) == 0.5)
    }

    @Test("All ticks of a linear axis of times have the unit of its end")
    func times() {
        let axis = Axis(unit: .microseconds).fitted(to: [2400])
        #expect(axis.ticks(atMost: 6).map(\.label) == ["0", "0.5 ms", "1 ms", "1.5 ms", "2 ms"])
        #expect(Axis.TimeUnit(2400).number(71) == "0.07" && Axis.TimeUnit(71).name == "µs")
    }

    @Test("On a logarithmic axis equal ratios have equal lengths, and 0 has no place")
    func logarithmic() throws {
        let axis = Axis(scale: .logarithmic, unit: .microseconds).fitted(to: [10, 100_000])
        #expect(axis.ticks(atMost: 6).map(\.label) == ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"])
        let places = try [10, 100, 1000].map { try #require(axis.place($0)) }
        #expect(abs(places[1] - places[0] - (places[2] - places[1])) < 1e-9)
        #expect(axis.place(0) == nil && axis.place(-1) == nil && axis.place(.nan) == nil)
    }

    @Test("On an axis of nines, each further nine has the same length, and 100 % has no place")
    func nines() throws {
        let axis = Axis(scale: .nines, unit: .percent).fitted(to: [0, 99.99])
        #expect(axis.ticks(atMost: 6).map(\.label) == ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"])
        let places = try [0, 90, 99, 99.9].map { try #require(axis.place($0)) }
        for (place, expected) in zip(places, [0, 0.25, 0.5, 0.75]) { #expect(abs(place - expected) < 1e-6) }
        #expect(axis.place(100) == nil)
    }

    @Test("No label of a horizontal axis touches another", arguments: [120.0, 200, 330, 560])
    func labels(_ length: Double) {
        for scale in [Axis.Scale.linear, .logarithmic] {
            for (low, high) in [(1.3e8, 8.2e8), (4.2e9, 1.7e11), (0.1, 99), (9, 110_000)] {
                let axis = Axis(scale: scale).fitted(to: [low, high])
                let ticks = axis.ticks(along: length)
                #expect(!ticks.isEmpty)
                for (first, second) in zip(ticks, ticks.dropFirst()) {
                    let half = (SVGDrawing.width(of: first.label) + SVGDrawing.width(of: second.label)) / 2
                    let distance = ((axis.place(second.value) ?? 0) - (axis.place(first.value) ?? 0)) * length
                    #expect(distance >= half + 7.9, "\(first.label) \(second.label)")
                }
            }
        }
    }

    @Test("Large numbers have k, M or G")
    func prefixes() {
        let labels = [9000.0, 20_000, 3_000_000, 100_000_000_000].map { Axis().label($0) }
        #expect(labels == ["9000", "20k", "3M", "100G"])
    }

    @Test("Values that are no numbers, or none at all, give an axis too")
    func noNumbers() {
        for values in [[], [.nan, .infinity], [0], [-.infinity, 5]] as [[Double]] {
            for scale in [Axis.Scale.linear, .logarithmic, .nines] {
                let axis = Axis(scale: scale).fitted(to: values)
                #expect(axis.range.lowerBound < axis.range.upperBound)
                #expect(axis.range.lowerBound.isFinite && axis.range.upperBound.isFinite)
                #expect(!axis.ticks(atMost: 5).isEmpty)
            }
        }
    }
}
