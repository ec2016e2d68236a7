import Primitives

/// Acknowledges one message. A receipt that is released before has abandoned the message.
final class Receipt: @unchecked Sendable {
    // Unchecked, because `isSettled` is written on the runtime only, and read elsewhere only by `deinit`, when no
    // reference is left.

    private let key: UInt64
    private let target: RuntimeBound<ReceiptTarget>
    private(set) var isSettled = false

    init(_ key: UInt64, _ target: RuntimeBound<ReceiptTarget>) {
        self.key = key
        self.target = target
    }

    func acknowledge() {
        if let here = target.here { settle(here) } else { target.execute { [self] in settle(target.value) } }
    }

    private func settle(_ target: ReceiptTarget) {
        guard !isSettled else { return }
        isSettled = true
        target.owner?.processed(key, isAbandoned: false)
    }

    var isAwaited: Bool { !isSettled && target.value.owner?.isUnprocessed(key) == true }

    deinit {
        // Not inline, because the last reference can be released in the middle of other work on the runtime.
        guard !isSettled else { return }
        target.execute { [key, target] in target.value.owner?.processed(key, isAbandoned: true) }
    }
}

/// The supervisor or session that delivered the messages, while it exists.
final class ReceiptTarget {
    weak var owner: (any ConnectionDelegate)?
}
