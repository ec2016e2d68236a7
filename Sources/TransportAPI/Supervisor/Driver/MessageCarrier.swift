/// A supervisor or a session, as a layer on top of its messages uses it.
package protocol MessageCarrier: AnyObject, Sendable {
    var runtime: any SupervisorRuntime { get }
    /// Shows each message to `claim`, on the runtime, before the listeners get it. A later call replaces the claim of the same
    /// claimant.
    func claim(as claimant: MessageClaimant, _ claim: MessageClaim?)
    /// Sends one message without waiting. Call this on the runtime.
    ///
    /// - Returns: The outcome if it is known at once. Otherwise `observer` receives it later.
    func send(_ payload: Payload, observer: any SendObserver) -> SendOutcome?
    /// The largest message in bytes that the current connection and the peer accept. Call this on the runtime.
    var messageLimit: Int { get }
    /// Whether the app has not processed all messages that it was given. Call this on the runtime.
    var waitsForApp: Bool { get }
    /// Waits until the store is open, if there is one. Returns the reason why nothing can be sent.
    nonisolated(nonsending) func openStore() async -> TransportError?
}

extension Supervisor: MessageCarrier {
    package func claim(as claimant: MessageClaimant, _ claim: MessageClaim?) {
        runtime.execute { [driver] in driver.value.inbound.claim(as: claimant, claim) }
    }

    package func send(_ payload: Payload, observer: any SendObserver) -> SendOutcome? {
        let (id, outcome) = driver.value.submit(payload)
        if outcome == nil { driver.value.outgoing.observe(id, observer) }
        return outcome
    }

    package var messageLimit: Int { driver.value.messageLimit }

    package var waitsForApp: Bool { driver.value.inbound.waitsForApp }
}

extension Session: MessageCarrier {
    package func claim(as claimant: MessageClaimant, _ claim: MessageClaim?) {
        if runtime.isCurrent { return driver.value.inbound.claim(as: claimant, claim) }
        runtime.execute { [driver] in driver.value.inbound.claim(as: claimant, claim) }
    }

    package func send(_ payload: Payload, observer: any SendObserver) -> SendOutcome? {
        let (id, outcome) = driver.value.submit(payload)
        if outcome == nil { driver.value.outgoing.observe(id, observer) }
        return outcome
    }

    package var messageLimit: Int { driver.value.messageLimit }

    package var waitsForApp: Bool { driver.value.inbound.waitsForApp }

    package nonisolated(nonsending) func openStore() async -> TransportError? { nil }
}
