import TransportAPI

/// What is simulated: how many clients, and what the server takes.
struct StormModel: Sendable, Hashable {
    var clients = 100_000
    /// How many handshakes the server completes in a second, one after the other. The time of one is rounded to whole
    /// nanoseconds.
    var handshakes = 2000
    /// How many connections may wait for the server. What comes beyond is dropped, as a SYN is.
    var backlog = 1024
    /// How long the server refuses everybody, from the moment at which the connections are lost.
    var outage = Duration.seconds(10)
    /// How long a client waits for its handshake to be done.
    var connectTimeout = Duration.seconds(10)
    /// Where the simulation ends.
    var limit = Duration.seconds(600)
}

/// What `imbench storm` is asked to compare.
struct StormOptions: Sendable, Hashable {
    var policies = StormPolicy.allCases
    var model = StormModel()
}
