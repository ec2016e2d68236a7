import Testing
import TransportAPI

@Suite("Equality of payloads")
struct PayloadEqualityTests {
    @Test("Payloads are equal if all their bytes are, at every length", arguments: 0...33)
    func bytes(length: Int) {
        let bytes = (0..<length).map { UInt8($0) }
        let payload = Payload(bytes)
        let copy = Payload(bytes.map { $0 })
        #expect(payload == copy && payload.hashValue == copy.hashValue)
        #expect(payload != Payload(bytes + [0]) && payload != Payload([0] + bytes))
        for position in 0..<length {
            var other = bytes
            other[position] &+= 1
            #expect(payload != Payload(other), "length \(length), position \(position)")
        }
    }

    @Test("Each attribute counts")
    func attributes() {
        let payload = Payload([1, 2], kind: .text, topic: "a", qos: .atLeastOnce, isRetained: true, isDuplicate: true)
        let changes: [(inout Payload) -> Void] = [
            { $0.kind = .binary }, { $0.topic = nil }, { $0.topic = "b" }, { $0.qos = nil }, { $0.qos = .exactlyOnce },
            { $0.isRetained = false }, { $0.isDuplicate = false }, { $0.bytes = [] },
        ]
        var all: Set = [payload]
        for change in changes {
            var other = payload
            change(&other)
            #expect(other != payload && payload != other)
            all.insert(other)
        }
        #expect(all.count == changes.count + 1)
        let copy = Payload([1] + [2], kind: .text, topic: "a", qos: .atLeastOnce, isRetained: true, isDuplicate: true)
        #expect(copy == payload && all.contains(copy))
    }
}
