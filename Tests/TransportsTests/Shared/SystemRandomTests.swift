import Testing
import TransportAPI
import Transports

@Suite("The system's random numbers")
struct SystemRandomTests {
    @Test("The numbers do not repeat over many fillings of the pool")
    func system() {
        var source = RandomSource.system()
        #expect(Set((0..<200).map { _ in source.next() }).count == 200)
    }
}
