import TestSupport
import Testing

@testable import TransportAPI

@Suite("The envelope of requests")
struct RequestEnvelopeTests {
    @Test("An envelope has the bytes of the worked example")
    func example() {
        #expect(
            RequestEnvelope.request(0x0102_0304_0506_0708, Array("hi".utf8)).bytes
                == [0x13, 1, 2, 3, 4, 5, 6, 7, 8, 0x68, 0x69]
        )
        #expect(RequestEnvelope.reply(2, [7]).bytes == [0x14, 0, 0, 0, 0, 0, 0, 0, 2, 7])
        let failure = RequestFailure(code: 0x1234, reason: "no")
        #expect(
            RequestEnvelope.failure(3, failure).bytes
                == [0x1b, 0, 0, 0, 0, 0, 0, 0, 3, 0x12, 0x34, 0x6e, 0x6f]
        )
    }

    @Test(
        "An envelope is read as it was written",
        arguments: [
            RequestEnvelope.request(.max, []), .request(0, [1, 2, 3]), .reply(1, []), .reply(7, [0x13]),
            .failure(9, RequestFailure(code: .max, reason: "")), .failure(9, RequestFailure(code: 16, reason: "é")),
        ]
    )
    func roundTrip(envelope: RequestEnvelope) {
        #expect(RequestEnvelope(envelope.payload()) == envelope)
        #expect(RequestEnvelope(Payload(envelope.bytes, kind: .text)) == nil)
    }

    @Test("A message that is too short, or that begins with another byte, is no envelope")
    func others() {
        #expect(RequestEnvelope(Payload([])) == nil)
        for first: UInt8 in [0x13, 0x14, 0x1b] {
            #expect(RequestEnvelope(Payload([first] + Array(repeating: 0, count: 7))) == nil)
        }
        #expect(RequestEnvelope(Payload([0x1b] + Array(repeating: 0, count: 9))) == nil)
        for first in UInt8.min ... .max where ![0x13, 0x14, 0x1b].contains(first) {
            #expect(RequestEnvelope(Payload([first] + Array(repeating: 0, count: 20))) == nil)
        }
    }

    @Test("The reason of a failure is cut between two characters, and mended if a peer sends other bytes")
    func reasons() {
        let long = RequestFailure(code: 20, reason: String(repeating: "é", count: 2000))
        #expect(long.reason == String(repeating: "é", count: 512))
        let odd = RequestFailure(code: 20, reason: "x" + String(repeating: "é", count: 2000))
        #expect(odd.reason.utf8.count == 1023)
        let head: [UInt8] = [0x1b, 0, 0, 0, 0, 0, 0, 0, 1, 0, 20]
        guard case .failure(1, let giant)? = RequestEnvelope(Payload(head + Array(repeating: 0x61, count: 1 << 20)))
        else {
            Issue.record("a giant text is no failure")
            return
        }
        #expect(giant.reason == String(repeating: "a", count: 1024) && giant.code == 20)
        guard case .failure(1, let broken)? = RequestEnvelope(Payload(head + Array(repeating: 0xff, count: 5000)))
        else {
            Issue.record("a text that is not UTF-8 is no failure")
            return
        }
        #expect(broken.reason.utf8.count <= 1024 && broken.reason.hasPrefix("\u{fffd}"))
    }
}
