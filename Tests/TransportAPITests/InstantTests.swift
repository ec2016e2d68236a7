import Testing
import TransportAPI

@Suite("Instants")
struct InstantTests {
    static let first = Instant(nanoseconds: .min)
    static let last = Instant(nanoseconds: .max)

    @Test("An instant that moves beyond the end of the clock saturates")
    func advancedSaturates() {
        #expect(Self.last.advanced(by: .nanoseconds(1)) == Self.last)
        #expect(Self.first.advanced(by: .nanoseconds(-1)) == Self.first)
        #expect(Instant.zero.advanced(by: .seconds(Int64.max)) == Self.last)
        #expect(Instant.zero.advanced(by: .seconds(Int64.min)) == Self.first)
        #expect(Self.first.advanced(by: .seconds(Int64.max)).nanoseconds == -1)
        #expect(Instant.zero.advanced(by: .milliseconds(1500)).nanoseconds == 1_500_000_000)
    }

    @Test("The duration between any two instants is exact and keeps its sign")
    func durations() {
        #expect(Instant.zero.duration(to: Instant(nanoseconds: 5)) == .nanoseconds(5))
        #expect(Instant(nanoseconds: 5).duration(to: .zero) == .nanoseconds(-5))
        #expect(Self.first.duration(to: Self.last) == .nanoseconds(Int64.max) - .nanoseconds(Int64.min))
        #expect(Self.first.duration(to: Self.last) > .zero)
        #expect(Self.last.duration(to: Self.first) < .zero)
    }

    @Test("Whole nanoseconds round toward zero and saturate")
    func wholeNanoseconds() {
        #expect(Duration(secondsComponent: 0, attosecondsComponent: 1_999_999_999).wholeNanoseconds == 1)
        #expect(Duration(secondsComponent: 0, attosecondsComponent: -1_999_999_999).wholeNanoseconds == -1)
        #expect(Duration.nanoseconds(Int64.max).wholeNanoseconds == .max)
        #expect(Duration.nanoseconds(Int64.min).wholeNanoseconds == .min)
        #expect((Duration.nanoseconds(Int64.max) + .nanoseconds(1)).wholeNanoseconds == .max)
        #expect((Duration.nanoseconds(Int64.min) - .nanoseconds(1)).wholeNanoseconds == .min)
        #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
        #expect(Duration.seconds(Int64.min).wholeNanoseconds == .min)
    }

    @Test("Instants are ordered by time")
    func order() {
        #expect(Self.first < .zero && .zero < Self.last)
        #expect(!(Instant.zero < .zero))
    }
}

@Suite("Payloads and statistics")
struct PayloadTests {
    @Test("Bytes are binary, text is UTF-8, and both have no topic")
    func kinds() {
        #expect(Payload([1, 2]) == Payload([1, 2], kind: .binary, topic: nil))
        #expect(Payload(text: "é").bytes == [0xc3, 0xa9])
        #expect(Payload(text: "é", topic: "a").kind == .text)
        let kept = Payload(text: "é", topic: "a", qos: .atLeastOnce, isRetained: true)
        #expect(kept == Payload([0xc3, 0xa9], kind: .text, topic: "a", qos: .atLeastOnce, isRetained: true))
        #expect(Payload([1]) != Payload([1], kind: .text))
    }

    @Test("The default capabilities are those of a framed byte stream")
    func capabilities() {
        let capabilities = Capabilities(maximumMessageSize: 9)
        #expect(capabilities.isReliable && capabilities.isOrdered && capabilities.hasNativePing)
        #expect(!capabilities.acknowledgesMessages && !capabilities.routesByTopic && !capabilities.distinguishesText)
        #expect(capabilities.maximumMessageSize == 9)
    }
}
