/// stub
package struct RoundTripTime: Sendable {
    package init() {}; var timeout: Duration { .seconds(1) }; mutating func sample(_ d: Duration) {};
    mutating func backOff() {}
}
