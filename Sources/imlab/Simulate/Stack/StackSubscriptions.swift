import CommandSupport
import Simulation
import SocketIO
import TransportAPI
import Transports

/// The subscriptions of an app that makes them one after the other through an `MQTTClient`, as it does after a restart.
///
/// No message to a filter of the app may be dropped as unclaimed. A message that a broker has acknowledged must arrive,
/// if the broker had it after the app's subscriptions.
final class StackSubscriptions: @unchecked Sendable {
    // Unchecked, because only the thread of the simulation uses it.

    private let run: StackRun
    private let name: String
    private let client: MQTTClient
    private let filters: [String]
    private let forgotten: String
    /// The filters whose subscription the broker has granted.
    private var granted: Set<String> = []
    /// Whether a subscription has ended, because resets looked like refusals. Nothing is checked then.
    private var isBroken = false
    /// The age of the server over whose connection the client is open.
    private var age: Int?
    private var isClosed = false

    init(_ run: StackRun, _ name: String, _ supervisor: Supervisor, forgets: Bool) {
        (self.run, self.name) = (run, name)
        let root = "loop/\(name)"
        forgotten = "\(root)/old"
        var filters = (0..<run.plan.filters).map { "\(root)/\($0)/+" }
        if run.plan.forgets, !forgets { filters.append(forgotten) }
        self.filters = filters
        client = MQTTClient(supervisor, buffer: [1, 4, 256][run.draw(0...2)])
    }

    /// The topic of a message.
    func topic(of number: Int) -> String {
        if run.plan.forgets, number % 4 == 3 { return forgotten }
        return "loop/\(name)/\(number % run.plan.filters)/\(number)"
    }

    /// The number of the loop that takes the messages of a filter.
    func index(of filter: String?) -> Int? {
        filter.flatMap { filters.firstIndex(of: $0) }
    }

    private func filter(of topic: String) -> String? {
        filters.first { MQTTSubscription($0).matches(topic) }
    }

    /// Whether the broker has granted a filter of the app for this topic. A message that is sent from then on must arrive,
    /// because the client subscribes first on each later connection.
    func isGranted(_ topic: String?) -> Bool {
        topic.flatMap(filter(of:)).map { granted.contains($0) } ?? false
    }

    /// Whether an acknowledgement that comes now is by the broker that runs now.
    var isAcknowledgedByCurrent: Bool { !isBroken && !isClosed && !run.server.isDead && age == run.serverAge }

    func note(_ note: SupervisorEvent) {
        switch note {
        case .state(let state):
            age = state.isOpen ? run.serverAge : nil
            isClosed = state.isFinal
        case .unclaimed(let message):
            guard !isBroken, let topic = message.topic, filter(of: topic) != nil else { return }
            run.checker.fail("\(name) has dropped a message to \(topic), to which its app listens")
        default: break
        }
    }

    /// Subscribes and passes on the messages of each filter, until the supervisor has ended.
    func live(on preference: EventLoop?, _ take: @escaping @Sendable (Payload, String) async -> Void) async {
        var readers: [Task<Void, Never>] = []
        for filter in filters {
            guard let messages = await subscribe(filter) else { break }
            readers.append(
                Task(executorPreference: preference) {
                    do throws(TransportError) {
                        for try await message in messages { await take(message, filter) }
                    } catch {
                        self.fail(filter, error)
                    }
                }
            )
            if run.chance(50) { await run.world.pause(Int64(run.draw(0...100_000_000))) }
        }
        await client.filtersAreComplete()
        for reader in readers { await reader.value }
    }

    private func subscribe(_ filter: String) async -> TopicMessages? {
        do throws(TransportError) {
            let qos: Payload.QoS = run.plan.carrier == .mqtt2 ? .exactlyOnce : .atLeastOnce
            let messages = try await client.subscribe(filter, qos: qos)
            granted.insert(filter)
            return messages
        } catch {
            fail(filter, error)
            return nil
        }
    }

    private func fail(_ filter: String, _ error: TransportError) {
        granted.remove(filter)
        isBroken = true
        run.checker.forgetOwed(to: name)
        run.world.trace.note(35, 0, 0, "\(name): \(filter) ended: \(error)")
    }
}
