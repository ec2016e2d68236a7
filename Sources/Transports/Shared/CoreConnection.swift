import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The connection of every transport that consists of a protocol core. Any thread can call it.
///
/// A call on the driver's loop is a plain call. A call from another thread runs inline while the loop is idle, and in
/// the loop's next tick otherwise. An operation that has to wait suspends, and the loop resumes it.
package final class CoreConnection: LocalConnection {
    package let capabilities: Capabilities
    package let identity: Identity?
    package let encryption: TLSDescription?
    package let driver: LoopBound<ConnectionDriver>
    package let peerNetwork: UInt64?
    /// The protocol of its subscriptions; `nil` if it has none.
    let subscriptions: SubscriptionProtocol?

    /// Creates the connection of `driver`, which must be open.
    init(_ driver: ConnectionDriver, capabilities: Capabilities) {
        self.driver = LoopBound(driver, to: driver.loop)
        self.capabilities = capabilities
        encryption = driver.channel.encryption
        identity = driver.core.identity ?? driver.certificateIdentity
        peerNetwork = driver.channel.peer?.network.number
        subscriptions = capabilities.routesByTopic ? driver.subscribingCore?.facts.spoken : nil
    }

    deinit {
        // No caller can use the connection any more. A driver that has ended does nothing.
        driver.execute { [driver] in driver.value.beginClose(.user) }
    }

    package nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        if case let outcome?? = driver.runInlineIfIdle({ $0.sendAhead(payload) }) { return outcome }
        return await driver.suspend(with: (payload, WaitID.next()), #isolation) {
            $0.send($1.0, $1.1, $2)
            $0.flushAhead()
        } onCancel: {
            $0.cancelSend($1.1)
        }
    }

    package nonisolated(nonsending) func send(
        _ payload: Payload,
        as name: MessageID,
        isRepeated: Bool
    ) async -> SendOutcome {
        guard capabilities.completesSends else { return isRepeated ? .unknown(.nothingLeft) : await send(payload) }
        let id = name.number | SendID.named
        return await driver.suspend(with: (payload, id, isRepeated), #isolation) {
            if $1.2 { $0.complete($1.1, $2) } else { $0.send($1.0, $1.1, $2) }
            $0.flushAhead()
        } onCancel: {
            $0.cancelSend($1.1)
        }
    }

    package nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? {
        if case let message?? = driver.runInlineIfIdle({ $0.takeMessage() }) { return try message.get() }
        return try await driver.suspend(with: WaitID.next(), #isolation) {
            $0.receive($1, $2)
        } onCancel: {
            $0.cancelReceive($1)
        }.get()
    }

    package nonisolated(nonsending) func ping() async throws(TransportError) -> Duration {
        try await driver.suspend(with: WaitID.next(), #isolation) {
            $0.ping($1, $2)
        } onCancel: {
            $0.cancelPing($1)
        }.get()
    }

    package nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int {
        await driver.suspend(with: (reason, WaitID.next()), #isolation) {
            $0.beginClose($1.0)
            $0.awaitClosed($1.1, $2)
        } onCancel: {
            $0.cancelClosed($1.1)
        }
    }

    package nonisolated(nonsending) func closed() async -> CloseReason {
        let reason: CloseReason? = await driver.suspend(with: WaitID.next(), #isolation) {
            $0.awaitEnd($1, $2)
        } onCancel: {
            $0.cancelEnd($1)
        }
        return reason ?? CloseReason(.cancelled(.open))
    }

    package nonisolated(nonsending) func statistics() async -> ConnectionStatistics {
        await driver.run(with: ()) { driver, _ in driver.currentStatistics }
    }

    // MARK: The receipts of messages

    package func confirmByHand() {
        if let here = driver.here {
            here.confirmByHand()
        } else {
            driver.execute { [driver] in driver.value.confirmByHand() }
        }
    }

    package func confirm(_ count: Int) {
        if let here = driver.here {
            here.confirm(count)
        } else {
            driver.execute { [driver] in driver.value.confirm(count) }
        }
    }

    // MARK: On the loop

    package var isHere: Bool { driver.here != nil }

    package func sendUnlessWaiting(_ payload: Payload) -> SendOutcome? { driver.value.sendUnlessWaiting(payload) }

    package func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>? {
        driver.value.receiveNow(orTell: receiver)
    }

    package func confirmTaken() { driver.value.confirmTaken() }

    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {
        driver.value.reportDiscarded(to: action)
    }

    package func networkChanged() { driver.value.networkChanged() }

    package func readSignsOfLife() -> SignsOfLife { driver.value.readSignsOfLife() }

    package func abandon(_ reason: CloseReason) { driver.value.abandon(reason) }
}
