import Testing

@testable import TransportAPI

@Suite("The part of a conversation that both sides have")
struct PeerLinkTests {
    private var link: PeerLink
    private var actions: [SupervisorAction] = []

    init() {
        var configuration = SupervisorConfiguration.session
        configuration.keepalive.interval = .seconds(30)
        link = PeerLink(configuration, identity: SessionID(high: 1, low: 2), sender: 3)
        link.connected(3, .session)
        link.delivery.attach(3, .session)
    }

    private var frames: [SessionFrame] {
        actions.compactMap { if case .transmit(3, nil, let payload) = $0 { try? SessionFrame(payload) } else { nil } }
    }

    private var roundTrips: [Duration] {
        actions.compactMap { if case .note(.roundTrip(let time)) = $0 { time } else { nil } }
    }

    @Test("A ping of the peer is answered with its number")
    mutating func answersPing() throws {
        try link.take(.ping(9), at: .zero, &actions)
        #expect(frames == [.pong(9)])
    }

    @Test("Only the answer to the last ping gives a round trip, from the time of that ping")
    mutating func roundTripOfLastPing() throws {
        link.watch(by: .frame, at: .zero)
        link.sendProbe(at: Instant(nanoseconds: 1_000_000), &actions)
        link.sendProbe(at: Instant(nanoseconds: 5_000_000), &actions)
        #expect(frames == [.ping(1), .ping(2)])
        try link.take(.pong(1), at: Instant(nanoseconds: 6_000_000), &actions)
        try link.take(.pong(77), at: Instant(nanoseconds: 6_000_000), &actions)
        #expect(roundTrips.isEmpty)
        try link.take(.pong(2), at: Instant(nanoseconds: 8_000_000), &actions)
        #expect(roundTrips == [.milliseconds(3)])
    }

    @Test("A connection without a probe has no keepalive")
    mutating func withoutProbe() {
        link.watch(by: nil, at: .zero)
        link.sendProbe(at: .zero, &actions)
        #expect(link.keepalive == nil && actions.isEmpty)
    }

    @Test("A message of the app's own heartbeat is the probe if the app has set one")
    mutating func ownHeartbeat() {
        link.watch(by: .payload(Payload([7]), isAnswered: false), at: .zero)
        link.sendProbe(at: .zero, &actions)
        #expect(actions.contains { if case .transmit(3, nil, Payload([7])) = $0 { true } else { false } })
    }

    @Test("A side that reads nothing does not take silence for the end of the peer, also over its next connection")
    mutating func readsNothing() {
        link.handle(.reading(.nothing), at: .zero, &actions)
        link.watch(by: .frame, at: .zero)
        for second in stride(from: Int64(30), through: 300, by: 10) {
            let now = Instant(nanoseconds: second * 1_000_000_000)
            #expect(link.keepalive?.deadlineReached(SignsOfLife(), at: now) != .dead)
        }
    }

    @Test("After the end of its connection there is no probe and no keepalive")
    mutating func detached() {
        link.watch(by: .frame, at: .zero)
        link.detach(at: .zero, &actions)
        #expect(link.keepalive == nil && link.probe == nil)
    }
}
