/// Performs the actions of a state machine: the part of a driver that is alike for both sides of a conversation. It has
/// the conversation's open connections, its messages in both directions, and its timer. Lives on its driver's runtime.
///
/// The driver passes an event to its machine, which appends to ``actions``, and then calls ``performAll(for:_:)``.
final class MachineRunner {
    let runtime: any SupervisorRuntime
    let inbound: InboundBuffer
    let outgoing: PendingSends
    // Exclusivity is unchecked, here and below, because no other code runs while these change.
    @exclusivity(unchecked) private(set) var handles: [Int: ConnectionHandle] = [:]
    /// The close of the latest connection, if this side has closed it. It returns the number of undelivered bytes.
    private(set) var closing: Task<Int, Never>?
    private let queue = ActionQueue()
    let timer: DeadlineTimer

    init(_ configuration: SupervisorConfiguration, _ outgoing: PendingSends, on runtime: any SupervisorRuntime) {
        self.runtime = runtime
        self.outgoing = outgoing
        inbound = InboundBuffer(configuration, on: runtime)
        timer = DeadlineTimer(on: runtime)
    }

    /// The actions that are not performed yet. The machine appends here.
    var actions: [SupervisorAction] {
        _read { yield queue.actions }
        _modify { yield &queue.actions }
    }

    /// Performs all actions, and those that they cause. `perform` first gets each action, and returns `false` for one that
    /// both sides perform alike.
    ///
    /// - Returns: `false` if it is called while an action is performed. The outer call does the work then.
    @inline(__always)
    func performAll(for owner: some ConnectionDelegate, _ perform: (SupervisorAction) -> Bool) -> Bool {
        queue.performAll { action in
            if !perform(action) { self.perform(action, for: owner) }
        }
    }

    private func perform(_ action: SupervisorAction, for owner: some ConnectionDelegate) {
        switch action {
        case .transmit(let connection, let id, let payload):
            if let handle = handles[connection] { return handle.transmit(id, payload) }
            if let id { owner.handle(.settled(connection, id, .rejected(.connectionGone))) }
        case .complete(let connection, let id, let payload, let orSend):
            if let handle = handles[connection] { return handle.complete(id, payload, orSend: orSend) }
            owner.handle(.settled(connection, id, .rejected(.connectionGone)))
        case .deliver(let payload): inbound.give(payload)
        case .deliverUnprocessed(let key, let payload, let id, let isRepeated):
            inbound.give(payload, key, id, isRepeated: isRepeated)
        case .confirm(let connection, let count): handles[connection]?.confirm(count)
        case .accepted(let id): if outgoing.admitted(id) { owner.handle(.stored(id)) }
        case .finish(let id, let outcome): outgoing.finished(id, outcome)
        case .abandon(let connection): handles.removeValue(forKey: connection)?.abandon(CloseReason(.keepalive))
        case .close(let connection, let reason): closing = handles.removeValue(forKey: connection)?.close(reason)
        case .ping(let connection): handles[connection]?.ping()
        case .connect, .forget, .state, .note, .storeProcessed, .storeMark: break
        }
    }

    /// The signs of life of the connection of this number, which the machine needs at its deadline.
    func readSignsOfLife(of connection: Int) -> SignsOfLife { handles[connection]?.readSignsOfLife() ?? SignsOfLife() }

    /// A connection has opened.
    func opened(_ handle: ConnectionHandle) {
        handles[handle.number] = handle
        closing = nil
    }

    /// A connection has ended.
    func ended(_ connection: Int) {
        handles[connection] = nil
    }

    /// From now on the app acknowledges messages, over all connections.
    func confirmByHand() {
        for handle in handles.values { handle.confirmByHand(isRead: true) }
    }
}

extension TransportError {
    fileprivate static let connectionGone = TransportError(.connectionLost, .open, "the connection has ended")
}
