import TransportAPI

/// The object `backoff`: the keys of all policies, of which each policy has its own.
struct BackoffKeys: Sendable {
    enum Policy: String, Sendable, CaseIterable {
        case exponential, fixed, immediate, schedule

        /// The keys that mean something, besides `policy`.
        var keys: [String] {
            switch self {
            case .exponential: ["initial", "maximum", "multiplier", "jitter"]
            case .fixed: ["delay"]
            case .immediate: []
            case .schedule: ["delays", "gives-up"]
            }
        }
    }

    // The defaults are those of `BackoffPolicy.standard`, as a test makes sure.
    var policy = Policy.exponential
    var initial = Duration.milliseconds(500)
    var maximum = Duration.seconds(20)
    var multiplier = 2.0
    var jitter = BackoffPolicy.Jitter.full
    var delay: Duration?
    var delays: [Duration]?
    var givesUp = false

    /// The policy that the keys describe.
    var backoff: BackoffPolicy {
        switch policy {
        case .exponential: .exponential(initial: initial, maximum: maximum, multiplier: multiplier, jitter: jitter)
        case .fixed: .fixed(delay ?? .zero)
        case .immediate: .immediate
        case .schedule: .schedule(delays ?? [], givesUp: givesUp)
        }
    }

    static let object = ConfigurationObject<BackoffKeys>(
        keys: [
            .init("policy", .word, \.policy, "how the delays follow each other"),
            .init(
                "initial",
                .duration(.milliseconds(1) ... .seconds(86_400)),
                \.initial,
                "exponential: the first delay"
            ),
            .init(
                "maximum",
                .duration(.milliseconds(1) ... .seconds(86_400)),
                \.maximum,
                "exponential: the longest delay"
            ),
            .init("multiplier", .number(1...10), \.multiplier, "exponential: the growth with each failure"),
            .init("jitter", .word, \.jitter, "exponential: how much is left to chance"),
            .init("delay", ValueForm.duration(wait).orAbsent, \.delay, "fixed: each delay; required there"),
            .init("delays", delayList.orAbsent, \.delays, "schedule: one after the other; required there"),
            .init("gives-up", .flag, \.givesUp, "schedule: whether it ends there, or repeats the last delay"),
        ],
        check: check
    )

    private static let wait: ClosedRange<Duration> = .zero ... .seconds(86_400)
    private static let delayList = ValueForm<[Duration]>.list(
        1...100,
        "delays, \"0s\" to \"24h\"",
        of: .duration(.zero ... .seconds(86_400))
    )

    @Sendable
    private static func check(_ keys: BackoffKeys, _ value: ConfigurationValue) throws(TransportError) {
        let allowed = ["policy"] + keys.policy.keys
        for member in value.members ?? [] where !allowed.contains(member.name) {
            let owner = Policy.allCases.first { $0.keys.contains(member.name) }?.rawValue ?? ""
            let list = allowed.joined(separator: ", ")
            throw value.value(of: member).failure(
                "belongs to the policy \(owner.debugDescription), not to "
                    + "\(keys.policy.rawValue.debugDescription); allowed are \(list)"
            )
        }
        if keys.policy == .fixed, keys.delay == nil { throw value.missing("delay", ValueForm.duration(wait).allowed) }
        if keys.policy == .schedule, keys.delays == nil { throw value.missing("delays", delayList.allowed) }
        if keys.policy == .exponential, keys.maximum < keys.initial {
            let place = value.member("maximum") ?? value.member("initial") ?? value
            throw place.failure(
                "makes the longest delay, \(keys.maximum.configured.debugDescription), shorter than the first, "
                    + "\(keys.initial.configured.debugDescription)"
            )
        }
    }
}
