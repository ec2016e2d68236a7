import Testing
import TransportAPI

@testable import Protocols

/// The cookie exchange of DTLS (RFC 6347, section 4.2.1).
@Suite("The cookies of a DTLS server")
struct DTLSListenerCoreTests {
    private static let address: [UInt8] = [2, 0, 0x12, 0x34, 127, 0, 0, 1]

    private var random = RandomSource.seeded(1)
    private var core: DTLSListenerCore
    /// The last answer; empty if there was none.
    private var answer: [UInt8] = []

    init() {
        core = DTLSListenerCore(random: &random)
    }

    /// A ClientHello with its record and its message numbered `number`.
    static func hello(
        number: UInt8 = 0,
        random: UInt8 = 7,
        session: [UInt8] = [],
        cookie: [UInt8] = [],
        fragmentOffset: UInt8 = 0
    ) -> [UInt8] {
        var body: [UInt8] = [0xfe, 0xfd] + [UInt8](repeating: random, count: 32)
        body += [UInt8(session.count)] + session + [UInt8(cookie.count)] + cookie
        body += [0, 2, 0xc0, 0x2b, 1, 0]
        let length = [0, 0, UInt8(body.count)]
        let message = [1] + length + [0, number, 0, 0, fragmentOffset] + length + body
        return [22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, number, 0, UInt8(message.count)] + message
    }

    private mutating func decide(
        _ datagram: [UInt8],
        from address: [UInt8] = Self.address,
        at now: Instant = .zero
    ) -> DTLSListenerCore.Decision {
        var input = ByteBuffer()
        input.append(contentsOf: datagram)
        var reply = ByteBuffer()
        let decision = address.withUnsafeBytes {
            core.receive(input, from: $0, now: now, random: &random, reply: &reply)
        }
        answer = reply.bytes(at: 0, count: reply.count) ?? []
        return decision
    }

    private mutating func cookie(_ hello: [UInt8], at now: Instant = .zero) -> [UInt8] {
        #expect(decide(hello, at: now) == .reply)
        return Array(answer.suffix(8))
    }

    @Test("The answer to a ClientHello is a shorter HelloVerifyRequest with the number of its record")
    mutating func verifyRequest() {
        #expect(decide(Self.hello(number: 5)) == .reply)
        let bytes = answer
        #expect(bytes.prefix(13) == [22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 5, 0, 23])
        #expect(bytes[13..<25] == [3, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 11])
        #expect(bytes[25..<28] == [0xfe, 0xff, 8] && bytes.count == 36)
        // The shortest ClientHello that is answered.
        #expect(Self.hello().count > bytes.count)
    }

    @Test("A ClientHello that returns the cookie is accepted, and the same one again has the same name")
    mutating func accepted() {
        let cookie = self.cookie(Self.hello())
        let decision = decide(Self.hello(number: 1, cookie: cookie))
        guard case .accept(let name) = decision else {
            Issue.record("\(decision)")
            return
        }
        #expect(decide(Self.hello(number: 1, cookie: cookie)) == .accept(name))
        #expect(
            decide(Self.hello(number: 1, session: [UInt8](repeating: 1, count: 32), cookie: cookie)) == .accept(name)
        )
    }

    @Test("A cookie of another address, of another random number, of another length, or a forged one is not accepted")
    mutating func refused() {
        let cookie = self.cookie(Self.hello())
        let hello = Self.hello(number: 1, cookie: cookie)
        #expect(decide(hello, from: Self.address.dropLast() + [2]) == .reply)
        #expect(decide(Self.hello(number: 1, random: 8, cookie: cookie)) == .reply)
        #expect(decide(Self.hello(number: 1, cookie: cookie + [0])) == .reply)
        #expect(decide(Self.hello(number: 1, cookie: cookie.dropLast())) == .reply)
        #expect(decide(Self.hello(number: 1, cookie: [UInt8](repeating: 0, count: 8))) == .reply)
        guard case .accept = decide(hello) else {
            Issue.record("the right cookie is refused")
            return
        }
    }

    @Test("A cookie is valid for at least two minutes, and not for more than four")
    mutating func lifetime() {
        let start = Instant.zero.advanced(by: .seconds(1000))
        let cookie = self.cookie(Self.hello(), at: start)
        let hello = Self.hello(number: 1, cookie: cookie)
        guard case .accept = decide(hello, at: start.advanced(by: .seconds(119))) else {
            Issue.record("the cookie is too old after 119 s")
            return
        }
        #expect(decide(hello, at: start.advanced(by: .seconds(241))) == .reply)
    }

    @Test("A ClientHello that is cut anywhere, or changed in a length, is dropped or answered, and never accepted")
    mutating func malformed() {
        let cookie = self.cookie(Self.hello())
        let hello = Self.hello(number: 1, cookie: cookie)
        for count in 0..<hello.count { #expect(decide(Array(hello.prefix(count))) == .drop, "\(count) bytes") }
        // The lengths of the record, the message, the fragment, the session and the cookie.
        for offset in [11, 12, 14, 15, 16, 19, 20, 21, 22, 23, 24, 59] {
            for value in [0, 1, 31, 33, 128, 255] as [UInt8] where hello[offset] != value {
                var changed = hello
                changed[offset] = value
                let decision = decide(changed)
                // A message may have more fragments.
                let mayBeAccepted = [14, 15, 16, 24].contains(offset)
                if case .accept = decision, !mayBeAccepted { Issue.record("byte \(offset) = \(value) is accepted") }
                if decision == .reply { #expect(answer.count < changed.count) }
            }
        }
        #expect(decide(Self.hello(number: 1, cookie: cookie, fragmentOffset: 1)) == .drop)
        #expect(decide([]) == .drop)
    }

    @Test("Any bytes are dropped or get a shorter answer")
    mutating func anyBytes() {
        var bytes = RandomSource.seeded(2)
        for _ in 0..<20_000 {
            var datagram = Self.hello(cookie: [1, 2, 3, 4, 5, 6, 7, 8])
            for _ in 0..<Int(bytes.next() % 6) {
                datagram[Int(bytes.next() % UInt64(datagram.count))] = UInt8(truncatingIfNeeded: bytes.next())
            }
            datagram = Array(datagram.prefix(Int(bytes.next() % 120)))
            switch decide(datagram) {
            case .reply: #expect(answer.count < datagram.count)
            case .drop: #expect(answer.isEmpty)
            case .accept: Issue.record("a forged cookie is accepted")
            }
        }
    }

    @Test("A listener without encryption answers a handshake of DTLS with an alert, and nothing else")
    mutating func plainListener() throws {
        var listener = try UDPListenerCore(random: &random)
        func decide(_ datagram: [UInt8], _ random: inout RandomSource) -> (isAlert: Bool, isDropped: Bool) {
            var input = ByteBuffer()
            var reply = ByteBuffer()
            input.append(contentsOf: datagram)
            let decision = listener.receive(input, from: Self.address, now: .zero, random: &random, reply: &reply)
            switch decision {
            case .reply(.encrypted):
                return (reply.bytes(at: 0, count: reply.count)?.first == 21 && reply.count == 15, false)
            case .drop(.malformed): return (false, true)
            default: return (false, false)
            }
        }
        #expect(decide(Self.hello(), &random).isAlert)
        // Two servers that take each other for clients fall silent.
        #expect(decide([21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 10], &random).isDropped)
        #expect(decide([22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1], &random).isDropped)
    }

    @Test("The ClientHello of a handshake that has ended begins no other one, and another ClientHello does")
    mutating func endedHandshake() throws {
        let hello = Self.hello(number: 1, cookie: cookie(Self.hello()))
        guard case .accept(let id) = decide(hello) else {
            Issue.record("the cookie is not accepted")
            return
        }
        #expect(decide(hello) == .accept(id))
        core.ended(id, now: .zero)
        #expect(decide(hello) == .drop && answer.isEmpty)
        let other = Self.hello(number: 1, random: 8, cookie: cookie(Self.hello(random: 8)))
        guard case .accept = decide(other) else {
            Issue.record("another handshake is not accepted")
            return
        }
    }

    @Test("A datagram of a handshake is cut before the first encrypted record beyond the quota")
    func earlyRecords() {
        func record(_ epoch: UInt8, _ content: [UInt8], type: UInt8 = 22) -> [UInt8] {
            [type, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 0, 0, UInt8(content.count)] + content
        }
        let (plain, encrypted) = (record(0, [1, 2]), record(1, [3]))
        var quota = DTLSRecord.EarlyQuota(messages: 1, others: 2)
        func beginning(_ datagram: [UInt8]) -> [UInt8] {
            datagram.withUnsafeBytes { Array(DTLSRecord.beginning(of: $0, encrypted: &quota)) }
        }
        #expect(beginning(plain + plain) == plain + plain && quota.others == 2)
        // An empty plain record in front hides nothing.
        #expect(beginning(record(0, []) + encrypted) == record(0, []) + encrypted && quota.others == 1)
        #expect(beginning(plain + encrypted + encrypted + plain) == plain + encrypted && quota.others == 0)
        #expect(beginning(encrypted) == [])
        #expect(beginning(plain + encrypted) == plain)
        // Messages have a quota of their own.
        let message = record(1, [4], type: 23)
        #expect(beginning(message + message) == message && quota == .init(messages: 0, others: 0))
        // The rest is no record.
        #expect(beginning(plain + [22, 0xfe, 0xfd, 0]) == plain)
    }
}
