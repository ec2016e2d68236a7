import Testing

@testable import imlab

@Suite("Steps of TLS handshakes at an attacked server")
struct HandshakeStepsTests {
    private func steps(_ times: [Int64]) -> HandshakeSteps {
        times.reduce(into: HandshakeSteps()) { $0.add($1) }
    }

    @Test("Nine interrupted steps do not count as steps that a peer repeats")
    func interrupted() {
        let steps = steps(Array(repeating: 9000, count: 9) + Array(repeating: 300, count: 200))
        #expect(steps.single == 9000)
        #expect(steps.repeated == 300)
    }

    @Test("Ten expensive steps count, wherever they are")
    func repeated() {
        let times = (1...200).map { $0.isMultiple(of: 20) ? 7000 + Int64($0) : 300 }
        #expect(steps(times).repeated == 7020)
        #expect(steps(times).single == 7200)
    }

    @Test("Of fewer than ten steps, the longest counts")
    func few() {
        #expect(steps([100, 8000, 200]).repeated == 8000)
        #expect(steps([]).repeated == 0)
    }
}
