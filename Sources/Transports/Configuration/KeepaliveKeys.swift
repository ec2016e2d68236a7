import TransportAPI

/// The object `keepalive`: its probe is two keys in the file.
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

    static let object = ConfigurationObject<KeepaliveKeys>(
        keys: [
            .init(
                "interval",
                interval,
                \.plain.interval,
                "the silence before a sign of life is asked for; automatic: as fits the transport"
            ),
            .init(
                "timeout",
                .duration(.milliseconds(100) ... .seconds(600)),
                \.plain.timeout,
                "how long the answer may take"
            ),
            .init(
                "idle-only",
                .flag,
                \.plain.isIdleOnly,
                "whether it is asked for only after silence, or at every interval"
            ),
            .init(
                "payload",
                ValueForm.text(1...4096).orAbsent,
                \.payload,
                "what is sent, in place of the protocol's own ping"
            ),
            .init(
                "answer",
                ValueForm.text(1...4096).orAbsent,
                \.answer,
                "what comes back for payload and is no message"
            ),
            .init(
                "adaptive",
                adaptive,
                \.plain.adaptive,
                "whether the longest interval that the path bears is looked for",
                inner: adaptiveObject.reference(defaults: AdaptiveKeepaliveConfiguration())
            ),
        ],
        check: { (keys, value) throws(TransportError) in
            if keys.payload == nil, let answer = value.member("answer") {
                throw answer.failure("has no meaning without \"payload\" beside it")
            }
            if keys.plain.interval == .off, keys.plain.adaptive != nil, let adaptive = value.member("adaptive") {
                throw adaptive.failure("looks for an interval, but \"interval\" beside it is \"off\"")
            }
        }
    )

    private static let interval: ValueForm<KeepaliveConfiguration.Interval> = {
        let duration = ValueForm.duration(.seconds(1) ... .seconds(86_400))
        let words = ["automatic", "off"]
        let allowed = "\(duration.allowed), \"automatic\", or \"off\""
        return ValueForm(allowed: allowed, words: words) { (value) throws(TransportError) in
            switch value.string {
            case "automatic": .automatic
            case "off": .off
            default: try duration.read(value).map { .fixed($0) }
            }
        } show: {
            switch $0 {
            case .automatic: "\"automatic\""
            case .off: "\"off\""
            case .fixed(let interval): duration.show(interval)
            }
        }
    }()

    private static let adaptive: ValueForm<AdaptiveKeepaliveConfiguration?> = {
        let object = ValueForm.object(adaptiveObject, from: AdaptiveKeepaliveConfiguration()) { $0 }
        return ValueForm(allowed: "true, false, or an object") { (value) throws(TransportError) in
            switch value.node.value {
            case .bool(true): return AdaptiveKeepaliveConfiguration()
            case .bool(false): return .some(nil)
            case .object: return try object.take(value)
            default: return nil
            }
        } show: {
            "\($0 != nil)"
        }
    }()

    private static let adaptiveObject = ConfigurationObject<AdaptiveKeepaliveConfiguration>(
        keys: [
            .init("minimum", .duration(.seconds(1) ... .seconds(86_400)), \.minimum, "an interval that is safe"),
            .init("maximum", .duration(.seconds(1) ... .seconds(86_400)), \.maximum, "the longest that is tried"),
            .init(
                "resolution",
                .duration(.seconds(1) ... .seconds(3600)),
                \.resolution,
                "how exact the result has to be"
            ),
        ],
        check: { (keys, value) throws(TransportError) in
            guard keys.maximum < keys.minimum else { return }
            let place = value.member("maximum") ?? value.member("minimum") ?? value
            throw place.failure(
                "makes the longest interval, \(keys.maximum.configured.debugDescription), shorter than the shortest, "
                    + "\(keys.minimum.configured.debugDescription)"
            )
        }
    )
}
