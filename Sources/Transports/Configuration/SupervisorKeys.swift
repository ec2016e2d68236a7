import Protocols
import TransportAPI

private let day = Duration.seconds(86_400)

/// The object `backoff`. It has the keys of all policies. Each policy uses some of them.
struct BackoffKeys: Sendable {
    enum Policy: String, Sendable, CaseIterable {
        case exponential, fixed, immediate, schedule

        /// The keys of this policy in addition to `policy`.
        var keys: [String] {
            switch self {
            case .exponential: ["initial", "maximum", "multiplier", "jitter"]
            case .fixed: ["delay"]
            case .immediate: []
            case .schedule: ["delays", "gives-up"]
            }
        }
    }

    // The defaults are those of `BackoffPolicy.standard`, which a test checks.
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

    static let object = SettingList(
        BackoffKeys(),
        [
            .init("policy", .word, \.policy, "the rule for the delays: growing, always the same, none, or a list"),
            .init("initial", growing, \.initial, "exponential: the first delay"),
            .init("maximum", growing, \.maximum, "exponential: the longest delay"),
            .init("multiplier", .number(1...10), \.multiplier, "exponential: the factor from one delay to the next"),
            .init(
                "jitter",
                .word,
                \.jitter,
                "exponential: how much of each delay is random: nothing, half, or all of it"
            ),
            .init("delay", waiting.orAbsent, \.delay, "fixed: the delay before each attempt; required for this policy"),
            .init(
                "delays",
                waitings.orAbsent,
                \.delays,
                "schedule: the delays, in their order; required for this policy"
            ),
            .init(
                "gives-up",
                .flag,
                \.givesUp,
                "schedule: true: give up after the attempt that follows the last delay; false: repeat the last delay"
            ),
        ],
        check: check
    )

    private static let growing = SettingFormat.duration(.milliseconds(1)...day)
    private static let waiting = SettingFormat.duration(.zero...day)
    private static let waitings = SettingFormat<[Duration]>.list(1...100, "delays, \(waiting.allowed)", of: waiting)

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
        if keys.policy == .fixed, keys.delay == nil { throw value.missing("delay", waiting.allowed) }
        if keys.policy == .schedule, keys.delays == nil { throw value.missing("delays", waitings.allowed) }
        if keys.policy == .exponential, keys.maximum < keys.initial {
            let place = value.member("maximum") ?? value.member("initial") ?? value
            throw place.failure(
                "makes the longest delay, \(keys.maximum.settingText.debugDescription), shorter than the first, "
                    + "\(keys.initial.settingText.debugDescription)"
            )
        }
    }
}

/// The object `keepalive`. Two keys of the file describe the probe.
struct KeepaliveKeys: Sendable {
    var plain = KeepaliveConfiguration()
    var payload: String?
    var answer: String?

    /// The configuration that the keys describe.
    var keepalive: KeepaliveConfiguration {
        var keepalive = plain
        if let payload { keepalive.probe = .payload(Payload(text: payload), answer: answer.map { Payload(text: $0) }) }
        return keepalive
    }

    static let object = SettingList(
        KeepaliveKeys(),
        [
            .init(
                "interval",
                interval,
                \.plain.interval,
                "a probe is sent after this time of silence; automatic: the interval of the transport"
            ),
            .init(
                "timeout",
                .duration(.milliseconds(100) ... .seconds(600)),
                \.plain.timeout,
                "how long the peer may take to answer a probe"
            ),
            .init(
                "idle-only",
                .flag,
                \.plain.isIdleOnly,
                "true: send a probe only after silence; false: send a probe at every interval"
            ),
            .init(
                "payload",
                SettingFormat.text(1...4096).orAbsent,
                \.payload,
                "the message that is sent as the probe, instead of the protocol's own ping"
            ),
            .init(
                "answer",
                SettingFormat.text(1...4096).orAbsent,
                \.answer,
                "the peer's answer to this payload; the app does not receive it as a message"
            ),
            .init(
                "adaptive",
                adaptive,
                \.plain.adaptive,
                "true or an object: search for the longest interval that the network path allows; false: no search"
            ),
        ],
        check: { (keys, value) throws(TransportError) in
            if keys.payload == nil, let answer = value.member("answer") {
                throw answer.failure("has no meaning without \"payload\" beside it")
            }
            if keys.plain.interval == .off, keys.plain.adaptive != nil, let adaptive = value.member("adaptive") {
                throw adaptive.failure("searches an interval, but \"interval\" beside it is \"off\"")
            }
        }
    )

    private static let interval: SettingFormat<KeepaliveConfiguration.Interval> = {
        let duration = SettingFormat.duration(.seconds(1)...day)
        let word = SettingFormat.word(of: ["automatic", "off"])
        let allowed = "\(duration.allowed), \"automatic\", or \"off\""
        return SettingFormat(allowed: allowed, words: word.words, isString: true) { (value) throws(TransportError) in
            switch try word.parse(value) {
            case "automatic": .automatic
            case "off": .off
            default: try duration.parse(value).map { .fixed($0) }
            }
        } text: {
            switch $0 {
            case .automatic: "automatic"
            case .off: "off"
            case .fixed(let interval): duration.text(interval)
            }
        }
    }()

    private static let adaptive: SettingFormat<AdaptiveKeepaliveConfiguration?> = {
        let object = SettingFormat.object(adaptiveObject) { $0 }
        let flag = SettingFormat<Bool>.flag
        let allowed = "\(flag.allowed), or an object"
        return SettingFormat(allowed: allowed, words: flag.words, inner: object.inner) {
            (value) throws(TransportError) in
            if value.members != nil { return try object.read(value) }
            return try flag.parse(value).map { $0 ? AdaptiveKeepaliveConfiguration() : nil }
        } text: {
            flag.text($0 != nil)
        }
    }()

    private static let adaptiveObject = SettingList(
        AdaptiveKeepaliveConfiguration(),
        [
            .init(
                "minimum",
                .duration(.seconds(1)...day),
                \.minimum,
                "the shortest interval, with which the search begins"
            ),
            .init("maximum", .duration(.seconds(1)...day), \.maximum, "the longest interval that is tried"),
            .init(
                "resolution",
                .duration(.seconds(1) ... .seconds(3600)),
                \.resolution,
                "the search ends when the longest interval that worked and the shortest that failed "
                    + "differ by at most this time"
            ),
        ],
        check: { (keys, value) throws(TransportError) in
            guard keys.maximum < keys.minimum else { return }
            let place = value.member("maximum") ?? value.member("minimum") ?? value
            throw place.failure(
                "makes the longest interval, \(keys.maximum.settingText.debugDescription), shorter than the shortest, "
                    + "\(keys.minimum.settingText.debugDescription)"
            )
        }
    )
}
