import TransportAPI

// What may go past the machine, which must come to what the machine does with it.

extension World {
    /// Gives the client's machine an event, and looks whether the short way would have led elsewhere, where there is one.
    mutating func handle(_ event: SupervisorMachine.Event, _ actions: inout [SupervisorAction]) {
        let time = Instant(nanoseconds: now)
        var quick = client
        let passes =
            switch event {
            case .submit(_, let payload): quick.letsPass(payload.bytes.count)
            case .received(let link, _): quick.passReceived(link, at: time)
            default: false
            }
        client.handle(event, at: time, using: &random, &actions)
        guard passes else { return }
        if !isPassing(event, actions) { fail(.delivery, "passing would not do what \(event) does: \(actions)") }
        guard case .received = event, quick.deadline != client.deadline else { return }
        fail(.liveness, "after passing, the deadline would be another")
    }

    /// Whether these are the actions for which nothing need be asked.
    private func isPassing(_ event: SupervisorMachine.Event, _ actions: [SupervisorAction]) -> Bool {
        switch event {
        case .submit(let id, _):
            guard actions.count == 2, case .accepted(let accepted) = actions[0],
                case .transmit(let link, let sent, _) = actions[1]
            else { return false }
            return accepted == id && sent == id && link == client.link
        case .received:
            guard actions.count == 1, case .deliver = actions[0] else { return false }
            return true
        default: return false
        }
    }
}
