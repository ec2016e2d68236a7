import SocketIO
import TransportAPI

// MARK: Reading

extension LinkDriver {
    /// Whether events may be taken from the core. An inbox that nobody empties must not keep the answer to our goodbye from
    /// being read; what else comes then is dropped and counted, as over datagrams.
    private var mayRead: Bool { inbox.hasRoom || isClosing || channel.isDatagram }

    /// Reads and delivers until the channel is empty or nobody consumes.
    func readWhilePossible() {
        guard !isPumping else { return }
        while isReadable, phase != .closed, mayRead || phase == .draining {
            if phase == .draining { input.removeAll() }
            borrowMemory(&input)
            let capacity = input.writableCount
            switch channel.read(into: &input) {
            case .bytes(let count):
                if phase == .opening { countRoundTrip() }
                if channel.isDrained(afterReading: count, of: capacity) { isReadable = false }
                if phase != .draining { pump() }
            case .wouldBlock:
                isReadable = false
            case .end where channel.isDatagram:
                continue
            case .end:
                isReadable = false
                inputEnded()
            case .failed(let error):
                isReadable = false
                readFailed(error)
            }
        }
        returnMemory(&input)
    }

    /// Takes events from the core until it has no more, or the inbox is full.
    func pump() {
        guard !isPumping, phase == .opening || phase == .open else { return }
        isPumping = true
        enterCore()
        do throws(TransportError) {
            while phase == .opening || phase == .open, mayRead,
                let event = try core.next(&input, &context)
            {
                deliver(event)
            }
        } catch {
            end(error)
        }
        isPumping = false
        if !inbox.hasRoom { isStalled = true }
        if channel.isDatagram { input.removeAll() }
        leaveCore()
    }

    private func countRoundTrip() {
        if isWaitingForAnswer { statistics.handshakeRoundTrips += 1 }
        isWaitingForAnswer = false
    }

    private func inputEnded() {
        guard phase != .draining else { return close(abort: false) }
        guard phase != .closed else { return }
        enterCore()
        do throws(TransportError) {
            deliver(try core.inputEnded(&context))
        } catch {
            end(error)
        }
        leaveCore()
    }

    private func readFailed(_ error: SystemError) {
        let isTransient = channel.isDatagram && error.number != ECONNREFUSED
        if !isTransient { end(TransportError(error, phase == .opening ? .handshake : .open), abort: true) }
    }
}
