import Testing

@testable import TransportAPI

@Suite("The buffer of several listeners")
struct MulticastBufferTests {
    @Test("A listener that has taken a burst frees the memory of that burst")
    func burst() {
        let buffer = MulticastBuffer<Int>(limit: 4096, .pause, keepsBacklog: true)
        for number in 0..<2000 { buffer.send(number) }
        let listener = buffer.add(first: nil)
        for number in 2000..<3000 { buffer.send(number) }
        #expect(listener.capacity >= 3000)
        for number in 0..<3000 { #expect(buffer.next(listener) == .some(.some(number))) }
        #expect(listener.capacity <= 256)
    }

    @Test("Each listener receives each element, and a new listener receives the elements kept before it")
    func elements() {
        let buffer = MulticastBuffer<Int>(limit: 4, .dropOldest, keepsBacklog: true)
        for number in 1...6 { buffer.send(number) }
        let first = buffer.add(first: nil)
        let second = buffer.add(first: 0)
        buffer.send(7)
        buffer.finish()
        #expect(rest(buffer, first) == [4, 5, 6, 7])
        #expect(rest(buffer, second) == [0, 7])
    }

    private func rest(_ buffer: MulticastBuffer<Int>, _ listener: MulticastBuffer<Int>.Listener) -> [Int] {
        var elements: [Int] = []
        while case let element?? = buffer.next(listener) { elements.append(element) }
        return elements
    }
}
