import Codecs
import TransportAPI

extension TransportConfiguration {
    static let object = ConfigurationObject<TransportConfiguration>(
        keys: [
            .init(
                "endpoints",
                .list(1...64, "URLs", of: .endpoint),
                \.endpoints,
                "where to connect, the first preferred"
            ),
            .init("codec", .word, \.codec, "the format of messages"),
            .init("headers", .headers, \.headers, "sent with each WebSocket handshake"),
            .init(
                "connect-timeout",
                .duration(.milliseconds(10) ... .seconds(3600)),
                \.supervisor.connectTimeout,
                "how long one attempt may take"
            ),
            .init(
                "stable-after",
                .duration(.zero ... .seconds(86_400)),
                \.supervisor.stableAfter,
                "how long a link is open before the backoff begins anew"
            ),
            .init(
                "maximum-attempts",
                ValueForm.integer(1...1_000_000).orNull,
                \.supervisor.maximumAttempts,
                "failures in a row before giving up; null: never"
            ),
            .init(
                "maximum-elapsed",
                ValueForm.duration(.milliseconds(10) ... .seconds(3_600_000)).orNull,
                \.supervisor.maximumElapsed,
                "time without a link before giving up; null: never"
            ),
            .init(
                "backoff",
                .object(BackoffKeys.object, from: BackoffKeys()) { $0.backoff },
                \.supervisor.backoff,
                "the delays between attempts",
                inner: BackoffKeys.object.reference(defaults: BackoffKeys())
            ),
            .init(
                "keepalive",
                .object(KeepaliveKeys.object, from: KeepaliveKeys()) { $0.keepalive },
                \.supervisor.keepalive,
                "signs of life",
                inner: KeepaliveKeys.object.reference(defaults: KeepaliveKeys())
            ),
            .init(
                "outbox",
                .object(outbox, from: OutboxConfiguration()) { $0 },
                \.supervisor.outbox,
                "messages that wait to be sent or acknowledged",
                inner: outbox.reference(defaults: OutboxConfiguration())
            ),
            .init(
                "delivery",
                .object(delivery, from: DeliveryConfiguration()) { $0 },
                \.supervisor.delivery,
                "what a sent message is promised",
                inner: delivery.reference(defaults: DeliveryConfiguration())
            ),
            .init(
                "message-buffer",
                .integer(1...65_536),
                \.supervisor.messageBuffer,
                "received messages that each listener's buffer holds"
            ),
            .init(
                "message-buffer-bytes",
                .integer(1...1 << 30),
                \.supervisor.messageBufferBytes,
                "the most bytes of them, and of those that came before their turn"
            ),
        ],
        check: { (configuration, value) throws(TransportError) in
            guard !configuration.endpoints.isEmpty else { throw value.missing("endpoints", "a list of 1 to 64 URLs") }
            try configuration.checkHeaders(value)
            try configuration.checkProbe(value)
            try configuration.checkSession(value)
        }
    )

    private static let outbox = ConfigurationObject<OutboxConfiguration>(keys: [
        .init("count", .integer(1...1 << 20), \.maximumCount, "the most messages"),
        .init("bytes", .integer(1...1 << 30), \.maximumBytes, "the most bytes"),
        .init(
            "age",
            ValueForm.duration(.seconds(1) ... .seconds(3_600_000)).or("off"),
            \.maximumAge,
            "how old a message may become"
        ),
        .init("when-full", .word, \.whenFull, "what becomes of a message that finds it full"),
    ])

    private static let delivery = ConfigurationObject<DeliveryConfiguration>(keys: [
        .init("mode", .word, \.mode, "any server, or one that speaks the session envelope"),
        .init("window", .integer(1...1024), \.window, "messages under way without an acknowledgement"),
        .init(
            "acknowledgement-reminder",
            .duration(.seconds(1) ... .seconds(86_400)),
            \.acknowledgementReminder,
            "how long a delivery may be unacknowledged before an event says so"
        ),
    ])

    private func checkProbe(_ value: ConfigurationValue) throws(TransportError) {
        guard case .payload = supervisor.keepalive.probe, supervisor.delivery.mode == .session,
            let payload = value.member("keepalive")?.member("payload")
        else { return }
        throw payload.failure("stands beside \"delivery.mode\": \"session\"; a session asks with frames of its own")
    }

    private func checkSession(_ value: ConfigurationValue) throws(TransportError) {
        guard supervisor.delivery.mode == .session, let list = value.member("endpoints")?.elements else { return }
        var transports: [any Transport] = []
        for endpoint in endpoints { transports.append(try value.registry.transport(for: endpoint)) }
        guard let stray = strayEndpoint(transports) else { return }
        throw list[stray.index].failure(stray.problem)
    }

    /// Each header on its own, so that an error can name its line.
    private func checkHeaders(_ value: ConfigurationValue) throws(TransportError) {
        guard let headers = value.member("headers"), !self.headers.isEmpty else { return }
        let registry = value.registry
        let takers = endpoints.filter { registry.takesHeaders($0.scheme) }
        guard let first = takers.first else {
            throw headers.failure("are for WebSocket, which none of the endpoints is")
        }
        for (member, header) in zip(headers.members ?? [], self.headers) {
            let place = headers.value(of: member)
            if HTTPSyntax.equalIgnoringCase(header.name, "authorization"), takers.contains(where: { $0.user != nil }) {
                throw place.failure("stands beside an endpoint with a user, who is sent in the same header")
            }
            do throws(TransportError) {
                _ = try registry.transport(for: first.adding([header]))
            } catch {
                throw place.failure(error)
            }
        }
        do throws(TransportError) {
            for endpoint in takers { _ = try registry.transport(for: endpoint.adding(self.headers)) }
        } catch {
            throw headers.failure(error)
        }
    }
}

extension ValueForm where Value == Endpoint {
    /// The URL of a transport that there is, with options that it takes.
    static var endpoint: Self {
        ValueForm(allowed: "a URL", isSecret: true) { (value) throws(TransportError) in
            guard let url = value.string else { return nil }
            do throws(TransportError) {
                let endpoint = try Endpoint(url)
                let names = value.registry.transports.map(\.name)
                guard names.contains(endpoint.scheme) else {
                    let near = nearestWord(to: endpoint.scheme, in: names).map { "; did you mean '\($0)'" } ?? ""
                    let list = names.joined(separator: ", ")
                    throw .configuration("scheme", "'\(endpoint.scheme)' is no transport\(near); there are \(list)")
                }
                _ = try value.registry.transport(for: endpoint)
                return endpoint
            } catch {
                throw value.failure(error)
            }
        }
    }
}

extension ValueForm where Value == [HTTPHeader] {
    /// An object whose names and strings are headers. No error quotes a value: it may be a secret.
    static var headers: Self {
        ValueForm(allowed: "an object of at most 64 strings", isSecret: true) { (value) throws(TransportError) in
            guard let members = value.members else { return nil }
            guard members.count <= 64 else {
                throw value.failure("are \(members.count); allowed is an object of at most 64 strings")
            }
            var headers: [HTTPHeader] = []
            for member in members {
                let value = value.value(of: member)
                guard let text = value.string else { throw value.wrong("a string", isSecret: true) }
                do throws(TransportError) {
                    headers.append(try HTTPHeader(member.name, text))
                } catch {
                    throw value.failure(error)
                }
            }
            return headers
        } show: {
            $0.isEmpty ? "none" : ""
        }
    }
}
