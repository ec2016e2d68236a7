import Dispatch
import Foundation

/// Returns when the process is interrupted by Ctrl-C (SIGINT), or asked to end (SIGTERM). From then on, another of these
/// signals ends the process at once.
public func interruption() async {
    let (signals, continuation) = AsyncStream<Void>.makeStream()
    let numbers = [SIGINT, SIGTERM]
    let sources = numbers.map { number in
        // The process would end before Dispatch sees the signal.
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number)
        source.setEventHandler { continuation.yield() }
        source.activate()
        return source
    }
    for await _ in signals { break }
    for (number, source) in zip(numbers, sources) {
        source.cancel()
        signal(number, SIG_DFL)
    }
}
