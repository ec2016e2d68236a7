/// The look-ups that are waiting for the system's resolver, and the last answers.
///
/// `getaddrinfo` blocks a thread until it has its answer, which takes minutes if no server answers, and nothing can cancel
/// it. So only some look-ups may run at once. Beyond that, a name is answered without the resolver if that is
/// possible: by the hosts file, as localhost, or from the last answers. These are older than the resolver's own would be,
/// but in that situation there are no others.
final class LookUps: Sendable {
    /// How many look-ups may run at once. Without this limit, a resolver that hangs would cost a thread for each
    /// attempt.
    static let limit = 64
    /// How many of them may be for the same name, so that the attempts to reach one server leave room for other names.
    static let limitPerName = 16
    /// How many answers are kept, and for how long, in nanoseconds. `getaddrinfo` does not tell how long they are valid.
    static let keptAnswers = 64
    static let longestAge: Int64 = 600_000_000_000
    private static let keptAddresses = 16

    typealias Outcome = Result<[SocketAddress], ConnectError>

    private struct Answer {
        let addresses: [SocketAddress]
        let time: Int64
    }

    private struct State {
        var total = 0
        var running: [String: Int] = [:]
        var answers: [String: Answer] = [:]
    }

    static let system = LookUps(Resolver.lookUp)

    private let state = Locked(State())
    private let hosts: String
    private let lookUp: @Sendable (String, UInt16) -> Outcome

    /// - Parameters:
    ///   - hosts: the path of the hosts file.
    ///   - lookUp: looks up a name, and blocks until it has the answer.
    init(hosts: String = HostsFile.systemPath, _ lookUp: @escaping @Sendable (String, UInt16) -> Outcome) {
        self.hosts = hosts
        self.lookUp = lookUp
    }

    /// Calls `give` once with the addresses of `host`, from any thread.
    func start(_ host: String, port: UInt16, _ give: @escaping @Sendable (Outcome) -> Void) {
        let name = host.lowercased()
        if let problem = state.withLock({ Self.admit(name, &$0) }) {
            return give(answer(name, port: port).map { .success($0) } ?? .failure(.resolverFailed(problem)))
        }
        do throws(SystemError) {
            try startThread("im-resolver") { [self] in
                let outcome = lookUp(host, port)
                finished(name, outcome)
                give(outcome)
            }
        } catch {
            finished(name, .failure(.system(error)))
            give(.failure(.system(error)))
        }
    }

    /// Counts a look-up. Returns a sentence if it must not run.
    private static func admit(_ name: String, _ state: inout State) -> String? {
        let same = state.running[name, default: 0]
        guard state.total < limit else { return "\(limit) look-ups are waiting for the resolver already" }
        guard same < limitPerName else { return "\(same) look-ups of \(name) are waiting for the resolver already" }
        state.total += 1
        state.running[name] = same + 1
        return nil
    }

    private func finished(_ name: String, _ outcome: Outcome) {
        state.withLock { state in
            state.total -= 1
            let left = state.running[name, default: 1] - 1
            state.running[name] = left > 0 ? left : nil
            guard case .success(let addresses) = outcome else { return }
            let answer = Answer(addresses: Array(addresses.prefix(Self.keptAddresses)), time: MonotonicClock.now())
            state.answers[name] = answer
            guard state.answers.count > Self.keptAnswers else { return }
            if let oldest = state.answers.min(by: { $0.value.time < $1.value.time }) { state.answers[oldest.key] = nil }
        }
    }

    /// Returns the addresses that are found without the resolver; `nil` if there are none.
    private func answer(_ name: String, port: UInt16) -> [SocketAddress]? {
        let own = HostsFile.addresses(of: name, port: port, in: hosts)
        guard own.isEmpty else { return own }
        guard let answer = state.withLock({ $0.answers[name] }),
            MonotonicClock.now() - answer.time < Self.longestAge
        else { return nil }
        return answer.addresses.map { $0.at(port: port) }
    }
}
